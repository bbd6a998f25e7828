import type { RevocationStore } from '../../domain/tokens/ports.ts';
import type { PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';

/** The outbox and the history of revocations; each question has an index of its own. */
export function makeRevocationStore(prisma: PrismaClient): RevocationStore {
  return {
    pending: (limit) =>
      orAuthError(async () => {
        const where = { pending: true };
        const rows = await prisma.token.findMany({ where, select: { id: true, userId: true }, take: limit });
        return rows.map(({ id, userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
      }),

    settle: (tokenIds) =>
      orAuthError(async () => {
        if (tokenIds.length === 0) return;
        const where = { id: { in: tokenIds.map(BigInt) }, pending: true };
        await prisma.token.updateMany({ where, data: { pending: false } });
      }),

    revokedSince: ({ at, id }, limit) =>
      orAuthError(async () => {
        const rows = await prisma.$queryRaw<{ id: bigint; user_id: bigint; revoked_at: Date }[]>`
          SELECT id, user_id, revoked_at FROM tokens
          WHERE revoked_at IS NOT NULL AND (revoked_at, id) > (${new Date(at)}, ${BigInt(id)})
          ORDER BY revoked_at, id LIMIT ${limit}`;
        return rows.map((row) => ({
          key: { tokenId: Number(row.id), userId: Number(row.user_id) },
          at: row.revoked_at.getTime(),
        }));
      }),
  };
}
