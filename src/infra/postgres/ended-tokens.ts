import { AuthError } from '../../domain/errors.ts';
import { asEnded, type EndedToken } from '../../domain/tokens/ended-token.ts';
import type { Ending, TokenStore } from '../../domain/tokens/ports.ts';
import type { Lifetimes, TokenRecord } from '../../domain/tokens/token-record.ts';
import { Prisma, type PrismaClient, type Token as TokenRow } from '../../generated/prisma/client.ts';
import { toRecord } from './rows.ts';

type Row = Omit<TokenRow, 'pending' | 'settledAt'>;

const COLUMNS = Prisma.sql`tokens.id, type::text, user_id AS "userId", name, created_at AS "createdAt",
  last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", end_reason AS "endReason",
  latest, parent, first, confirmed, client`;

/** See TokenStore.revokeAll. The lock comes first and alone: the next statement then sees what it has waited for. */
export async function endTokens(
  tx: Prisma.TransactionClient,
  userId: number,
  { at, reason, usedSince, keep }: Ending,
): Promise<{ ended: TokenRecord[]; before: number | null }> {
  const owner = BigInt(userId);
  await tx.$queryRaw`SELECT id FROM users WHERE id = ${owner} FOR NO KEY UPDATE`;
  if (keep !== undefined) {
    const kept = { id: BigInt(keep), userId: owner, type: 'session' as const, revokedAt: null };
    if ((await tx.token.count({ where: kept })) === 0) throw new AuthError('invalid_token');
  }
  // In the order of ids, as write-behind takes its locks.
  const rows = await tx.$queryRaw<Row[]>`
    WITH locked AS MATERIALIZED (
      SELECT id FROM tokens
      WHERE user_id = ${owner} AND revoked_at IS NULL AND (type = 'llt' OR latest > ${BigInt(usedSince)})
        AND id <> ${BigInt(keep ?? 0)}
      ORDER BY id FOR NO KEY UPDATE
    )
    UPDATE tokens SET revoked_at = ${new Date(at)}, pending = true, end_reason = ${reason}
    FROM locked WHERE tokens.id = locked.id RETURNING ${COLUMNS}`;
  const ended = rows.map(toRecord).sort((one, other) => one.id - other.id);
  if (keep !== undefined) return { ended, before: null };
  const { _max: greatest } = await tx.token.aggregate({ where: { userId: owner }, _max: { id: true } });
  return { ended, before: Number(greatest.id ?? 0) };
}

/** See TokenStore.listEnded. What `asEnded` says of each is said here once more, to know which are the newest. */
export async function findEnded(
  prisma: PrismaClient,
  userId: number,
  { since, now, limit, before }: Parameters<TokenStore['listEnded']>[1],
  lifetimes: Lifetimes,
): Promise<EndedToken[]> {
  const isAfter = before
    ? Prisma.sql`AND (ended.at, tokens.id) < (${new Date(before.endedAt)}, ${BigInt(before.id)})`
    : Prisma.empty;
  const maxAge = lifetimes.session === 0 ? null : lifetimes.session;
  const rows = await prisma.$queryRaw<Row[]>`
    SELECT ${COLUMNS} FROM tokens
    CROSS JOIN LATERAL (
      SELECT CASE WHEN type = 'session' THEN LEAST(
        to_timestamp(latest / 1000000 + ${lifetimes.refreshToken}::int),
        created_at + ${maxAge}::int * interval '1 second') END AS at
    ) AS expiry
    CROSS JOIN LATERAL (
      SELECT CASE WHEN end_reason = 'reuse' THEN revoked_at ELSE LEAST(revoked_at, expiry.at) END AS at
    ) AS ended
    WHERE user_id = ${BigInt(userId)}
      AND (revoked_at > ${new Date(since)} OR (revoked_at IS NULL AND ended.at <= ${new Date(now)}))
      AND ended.at > ${new Date(since)} ${isAfter}
    ORDER BY ended.at DESC, tokens.id DESC LIMIT ${limit}`;
  return rows.flatMap((row) => asEnded(toRecord(row), row.endReason, lifetimes, now) ?? []);
}
