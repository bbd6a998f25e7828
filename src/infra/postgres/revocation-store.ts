import type { TokenKey } from '../../domain/principal.ts';
import type { RevocationStore } from '../../domain/tokens/ports.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { prepare } from './prepared.ts';
import { readTimePage, timePage } from './time-page.ts';

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
        const { items, last } = await readTimePage(run, SETTLED_SINCE, from, limit);
        return { keys: items as TokenKey[], last };
      }),
  };
}

export const SETTLED_SINCE = timePage(
  'tokens',
  'settled_at',
  'user_id',
  `json_build_object('userId', user_id, 'tokenId', id)`,
);

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

function keyOf({ id, user_id: userId }: Listed): TokenKey[] {
  return id === null ? [] : [{ tokenId: Number(id), userId: Number(userId) }];
}
