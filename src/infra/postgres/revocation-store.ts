import type { RevocationStore } from '../../domain/tokens/ports.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';

/** The outbox and the history of revocations; each question has an index of its own. */
export function makeRevocationStore(prisma: PrismaClient): RevocationStore {
  return {
    pending: (limit, userId) =>
      orAuthError(async () => {
        const where = { pending: true, ...(userId !== undefined && { userId: BigInt(userId) }) };
        const rows = await prisma.token.findMany({ where, select: { id: true, userId: true }, take: limit });
        return rows.map(({ id, userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
      }),

    marksOf: (userIds) =>
      orAuthError(async () => {
        if (userIds.length === 0) return [];
        // Disabling has ended every token, and until the account is enabled again there is none to come (user-status.ts).
        const rows = await prisma.$queryRaw<{ user_id: bigint; before: bigint }[]>`
          SELECT users.id AS user_id, newest.id AS before
          FROM users CROSS JOIN LATERAL (
            SELECT max(tokens.id) AS id FROM tokens WHERE tokens.user_id = users.id) AS newest
          WHERE users.id = ANY(${userIds.map(BigInt)}) AND disabled_at IS NOT NULL AND newest.id IS NOT NULL
          ORDER BY users.id`;
        return rows.map((row) => ({ userId: Number(row.user_id), before: Number(row.before) }));
      }),

    settle: (tokenIds) =>
      orAuthError(async () => {
        if (tokenIds.length === 0) return;
        // In the order of ids, as every writer of many rows takes its locks.
        await prisma.$executeRaw`
          WITH locked AS MATERIALIZED (
            SELECT id FROM tokens WHERE id = ANY(${tokenIds.map(BigInt)}) AND revoked_at IS NOT NULL
            ORDER BY id FOR NO KEY UPDATE
          )
          UPDATE tokens SET pending = false, settled_at = clock_timestamp()
          FROM locked WHERE tokens.id = locked.id`;
      }),

    settledSince: (from, limit) =>
      orAuthError(async () => {
        const after =
          'ago' in from
            ? Prisma.sql`settled_at > statement_timestamp() - ${from.ago} * interval '1 millisecond'`
            : Prisma.sql`(settled_at, id) > (${new Date(from.at)}, ${BigInt(from.id)})`;
        const rows = await prisma.$queryRaw<{ id: bigint; user_id: bigint; settled_at: Date }[]>`
          SELECT id, user_id, settled_at FROM tokens
          WHERE ${after} ORDER BY settled_at, id LIMIT ${limit}`;
        return rows.map((row) => ({
          key: { tokenId: Number(row.id), userId: Number(row.user_id) },
          at: row.settled_at.getTime(),
        }));
      }),
  };
}
