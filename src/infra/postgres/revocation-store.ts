import type { TokenKey } from '../../domain/principal.ts';
import type { RevocationStore } from '../../domain/tokens/ports.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { prepare } from './prepared.ts';

/** The outbox and the history of revocations. Each query has its own index. */
export function makeRevocationStore({ prisma, run }: Pick<Postgres, 'prisma' | 'run'>): RevocationStore {
  return {
    pending: (limit, userId, after = 0) =>
      mapDatabaseErrors(async () => {
        const ofUser = userId === undefined ? Prisma.empty : Prisma.sql`AND user_id = ${BigInt(userId)}`;
        const rows = await prisma.$queryRaw<Listed[]>`
          SELECT ${IS_STANDBY}, id, user_id FROM (SELECT) AS one
          LEFT JOIN (SELECT id, user_id FROM tokens WHERE pending AND id > ${after} ${ofUser}
            ORDER BY id LIMIT ${limit}) AS found ON true ORDER BY id`;
        return refuseStandby(rows).flatMap(keyOf);
      }),

    marksOf: (userIds) =>
      mapDatabaseErrors(async () => {
        if (userIds.length === 0) return [];
        // A disabled account has no live token, and gets none until it is enabled again (account-store.ts).
        const rows = await prisma.$queryRaw<{ user_id: bigint; before: bigint }[]>`
          SELECT users.id AS user_id, newest.id AS before
          FROM users CROSS JOIN LATERAL (
            -- The newest token has no written end (ended-tokens.ts).
            SELECT max(tokens.id) AS id FROM tokens WHERE tokens.user_id = users.id AND ended_at IS NULL) AS newest
          WHERE users.id = ANY(${userIds.map(BigInt)}) AND disabled_at IS NOT NULL AND newest.id IS NOT NULL
          ORDER BY users.id`;
        return rows.map((row) => ({ userId: Number(row.user_id), before: Number(row.before) }));
      }),

    settle: (tokenIds) =>
      mapDatabaseErrors(async () => {
        if (tokenIds.length === 0) return;
        await run(SETTLE, [tokenIds]);
      }),

    settledSince: (from, limit) =>
      mapDatabaseErrors(async () => {
        const [at, id, ago] = 'ago' in from ? [null, MAX_ID, from.ago] : [new Date(from.at), from.id, 0];
        const rows = await run<SettledRow>(SETTLED_SINCE, [at, id, ago, limit]);
        const [{ keys, last }] = refuseStandby(rows);
        return { keys: JSON.parse(keys ?? '[]') as TokenKey[], last: last?.getTime() ?? 0 };
      }),
  };
}

/** No id is greater. */
const MAX_ID = Number.MAX_SAFE_INTEGER;

/**
 * All keys are one text, because a row for each would cost far more (see feed-record.ts). The first condition lets
 * PostgreSQL use its index, which is partial: a comparison of two columns does not tell it that neither is null.
 */
export const SETTLED_SINCE = prepare(`
  WITH start AS (SELECT coalesce($1, statement_timestamp() - $3::float8 * interval '1 millisecond') AS at)
  SELECT ${IS_STANDBY.text}, max(settled_at) AS last,
    json_agg(json_build_object('userId', user_id, 'tokenId', id) ORDER BY settled_at, id)::text AS keys
  FROM (
    SELECT id, user_id, settled_at FROM tokens, start
    WHERE settled_at >= start.at AND (settled_at, id) > (start.at, $2::bigint)
    ORDER BY settled_at, id LIMIT $4) AS page`);

/** Skips rows that another transaction holds: requests settle too, and must not wait for them with a connection. */
const SETTLE = prepare(`
  WITH locked AS MATERIALIZED (
    SELECT id FROM tokens WHERE id = ANY($1::bigint[]) AND revoked_at IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED
  )
  UPDATE tokens SET pending = false, settled_at = clock_timestamp() FROM locked WHERE tokens.id = locked.id`);

interface Listed {
  isStandby: boolean;
  /** Null in the single row of an empty list. */
  id: bigint | null;
  user_id: bigint;
}

interface SettledRow {
  isStandby: boolean;
  /** As JSON. Both are null in an empty page. */
  keys: string | null;
  last: Date | null;
}

function keyOf({ id, user_id: userId }: Listed): TokenKey[] {
  return id === null ? [] : [{ tokenId: Number(id), userId: Number(userId) }];
}
