import type { StateWriter } from '../../domain/tokens/ports.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Writes batches of rotations and uses, with one statement per batch. */
export function makeStateWriter(prisma: PrismaClient): StateWriter {
  return {
    saveStates: (states) =>
      mapDatabaseErrors(async () => {
        const column = <Value>(read: (entry: (typeof states)[number]) => Value) => states.map(read);
        const ended = await prisma.$queryRaw<{ id: bigint; user_id: bigint }[]>`
          WITH given AS (
            SELECT * FROM unnest(
              ${column(({ tokenId }) => BigInt(tokenId))}::bigint[],
              ${column(({ userId }) => BigInt(userId))}::bigint[],
              ${column(({ state }) => BigInt(state.latest))}::bigint[],
              ${column(({ state }) => BigInt(state.parent))}::bigint[],
              ${column(({ state }) => BigInt(state.first))}::bigint[],
              ${column(({ state }) => state.confirmed)}::boolean[],
              ${column(({ state }) => state.caller)}::text[]
            ) AS given(id, user_id, latest, parent, first, confirmed, client)
          ), locked AS MATERIALIZED (
            -- Lock in the order of ids, or two replicas that write the same rows could deadlock.
            SELECT id, user_id, latest, confirmed, revoked_at FROM tokens
            WHERE id IN (SELECT id FROM given) ORDER BY id FOR NO KEY UPDATE
          ), moved AS (
            UPDATE tokens SET latest = given.latest, parent = given.parent, first = given.first,
              confirmed = given.confirmed, client = given.client,
              -- If the record was so far behind that its session seemed over.
              ended_at = NULL
            FROM given JOIN locked USING (id, user_id)
            WHERE tokens.id = given.id AND locked.revoked_at IS NULL
              AND (given.latest > locked.latest
                OR (given.latest = locked.latest AND given.confirmed AND NOT locked.confirmed))
          )
          SELECT given.id, given.user_id FROM given LEFT JOIN locked USING (id, user_id)
          WHERE locked.id IS NULL OR locked.revoked_at IS NOT NULL`;
        return ended.map(({ id, user_id: userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
      }),

    saveUses: (uses) =>
      mapDatabaseErrors(async () => {
        await prisma.$executeRaw`
          WITH ${givenUses(uses)}, locked AS MATERIALIZED (
            SELECT id FROM tokens WHERE id IN (SELECT id FROM given) ORDER BY id FOR NO KEY UPDATE
          )
          UPDATE tokens SET last_used_at = given.at FROM given JOIN locked USING (id)
          WHERE tokens.id = given.id AND (tokens.last_used_at IS NULL OR tokens.last_used_at < given.at)`;
      }),

    saveReportedUses: (uses) =>
      mapDatabaseErrors(async () => {
        await prisma.$executeRaw`
          WITH ${givenUses(uses)}, moved AS MATERIALIZED (
            SELECT id, given.at FROM tokens JOIN given USING (id)
            WHERE type = 'llt' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > given.at)
              AND (last_used_at IS NULL OR last_used_at <= given.at - interval '1 minute')
            ORDER BY id FOR NO KEY UPDATE OF tokens
          )
          UPDATE tokens SET last_used_at = moved.at FROM moved WHERE tokens.id = moved.id`;
      }),
  };
}

function givenUses(uses: readonly { tokenId: number; at: number }[]): Prisma.Sql {
  return Prisma.sql`given AS (
    SELECT * FROM unnest(
      ${uses.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
      ${uses.map(({ at }) => new Date(at))}::timestamptz[]
    ) AS given(id, at)
  )`;
}
