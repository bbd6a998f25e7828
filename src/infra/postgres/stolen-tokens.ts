import type { EndReason } from '../../domain/tokens/ended-token.ts';
import type { StolenLongLived } from '../../domain/tokens/ports.ts';
import type { Prisma } from '../../generated/prisma/client.ts';
import { lockUser } from './caller-lock.ts';

interface Row {
  id: bigint;
  is_session: boolean;
  is_revoked: boolean;
  is_pending: boolean;
  end_reason: string | null;
  created_generation: bigint | null;
}

/**
 * See TokenStore.revokeForReuse. A first statement locks only the user's row, as code that adds tokens does, so that
 * the next statement sees every long-lived token added before. Locks token rows in the order of ids, as write-behind
 * does.
 */
export async function endStolen(
  tx: Prisma.TransactionClient,
  userId: number,
  sessionId: number,
  at: number,
  since: number | undefined,
): Promise<StolenLongLived | null> {
  const [owner, session] = [BigInt(userId), BigInt(sessionId)];
  await lockUser(tx, userId);
  const rows = await tx.$queryRaw<Row[]>`
    SELECT id, type = 'session' AS is_session, revoked_at IS NOT NULL AS is_revoked, pending AS is_pending,
      end_reason, created_generation
    FROM tokens
    WHERE user_id = ${owner}
      AND ((type = 'session' AND id = ${session})
        OR ((ended_at IS NULL OR pending) AND type = 'llt' AND created_by = ${session}))
    ORDER BY id FOR NO KEY UPDATE`;
  const stolen = rows.find((row) => row.is_session);
  if (!stolen) return null;

  const reason = 'reuse' satisfies EndReason;
  // Without a known generation: if the theft is on record, its finder knew the generation and ended the tokens.
  const from = since ?? (stolen.end_reason === reason ? Infinity : 0);
  const created = rows.filter((row) => !row.is_session && Number(row.created_generation) >= from);
  const ended = created.filter((row) => !row.is_revoked).map(({ id }) => id);
  const ids = stolen.is_revoked ? ended : [session, ...ended];
  if (ids.length > 0) {
    await tx.token.updateMany({
      where: { id: { in: ids } },
      // The end of a session that seemed over is not written any more: the theft is the end.
      data: { revokedAt: new Date(at), pending: true, endReason: reason, endedAt: null },
    });
  }
  const pending = created.filter((row) => row.is_revoked && row.is_pending).map(({ id }) => id);
  return { ended: ended.map(Number), pending: pending.map(Number) };
}
