import { AuthError } from '../../domain/errors.ts';
import { asEnded, type EndedToken } from '../../domain/tokens/ended-token.ts';
import type { Ending, TokenStore } from '../../domain/tokens/ports.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { Lifetimes } from '../../domain/tokens/claims.ts';
import { Prisma, type PrismaClient, type Token as TokenRow } from '../../generated/prisma/client.ts';
import { lockUser, requireLive, type CallerRow } from './caller-lock.ts';
import { toRecord, type TokenColumns } from './rows.ts';

type Row = TokenColumns & Pick<TokenRow, 'endReason'>;

const COLUMNS = Prisma.sql`tokens.id, type::text, user_id AS "userId", name, created_at AS "createdAt",
  last_used_at AS "lastUsedAt", revoked_at AS "revokedAt", end_reason AS "endReason",
  expires_at AS "expiresAt", created_by AS "createdBy", latest, parent, first, confirmed, client`;

/**
 * See TokenStore.revokeAll. A first statement locks only the user, so that the next one sees every change that it
 * waited for. That one locks the caller's row and the rows to end in the order of ids, as write-behind does.
 */
export async function endTokens(
  tx: Prisma.TransactionClient,
  userId: number,
  { at, reason, usedSince, caller, keepsCaller, keepsLongLived = false }: Ending,
): Promise<{ ended: TokenRecord[]; before: number | null }> {
  const owner = BigInt(userId);
  const active = await lockUser(tx, userId);
  if (caller !== null && !active) throw new AuthError('invalid_token');
  const locked = await tx.$queryRaw<CallerRow[]>`
    SELECT id, revoked_at AS "revokedAt" FROM tokens
    WHERE user_id = ${owner} AND (id = ${BigInt(caller ?? 0)} OR ${isEnding(usedSince, keepsLongLived)})
    ORDER BY id FOR NO KEY UPDATE`;
  if (caller !== null) requireLive(locked, caller);
  const keep = keepsCaller ? caller : null;
  const rows = await tx.$queryRaw<Row[]>`
    UPDATE tokens SET revoked_at = ${new Date(at)}, pending = true, end_reason = ${reason}
    WHERE id = ANY(${locked.map(({ id }) => id)}) AND id <> ${BigInt(keep ?? 0)} AND revoked_at IS NULL
    RETURNING ${COLUMNS}`;
  const ended = rows.map(toRecord).sort((one, other) => one.id - other.id);
  if (keep !== null || keepsLongLived) return { ended, before: null };
  const { _max: greatest } = await tx.token.aggregate({ where: { userId: owner }, _max: { id: true } });
  return { ended, before: Number(greatest.id ?? 0) };
}

/** True for a long-lived token (unless they are kept), or a session used since (µs), that is not revoked. */
function isEnding(usedSince: number, keepsLongLived: boolean): Prisma.Sql {
  return Prisma.sql`(revoked_at IS NULL AND CASE WHEN type = 'llt' THEN NOT ${keepsLongLived}
    ELSE latest > ${BigInt(usedSince)} END)`;
}

/** See TokenStore.listEnded. Repeats the rules of `asEnded` in SQL, because it sorts by the time of the end. */
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
        created_at + ${maxAge}::int * interval '1 second') ELSE expires_at END AS at
    ) AS expiry
    CROSS JOIN LATERAL (
      SELECT CASE WHEN type = 'session' AND end_reason = 'reuse' THEN revoked_at ELSE LEAST(revoked_at, expiry.at) END AS at
    ) AS ended
    WHERE user_id = ${BigInt(userId)}
      AND (revoked_at > ${new Date(since)} OR (revoked_at IS NULL AND ended.at <= ${new Date(now)}))
      AND ended.at > ${new Date(since)} ${isAfter}
    ORDER BY ended.at DESC, tokens.id DESC LIMIT ${limit}`;
  return rows.flatMap((row) => asEnded(toRecord(row), row.endReason, lifetimes, now) ?? []);
}
