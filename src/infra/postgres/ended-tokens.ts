import {
  asEnded,
  finalEnd,
  newestFirst,
  type EndedToken,
  type EndReason,
} from '../../domain/tokens/ended-token.ts';
import type { Ending, TokenStore } from '../../domain/tokens/ports.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { Lifetimes } from '../../domain/tokens/claims.ts';
import { Prisma, type PrismaClient, type Token as TokenRow } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { CALLER_COLUMNS, lockUser, requireActive, requireLive, type CallerRow } from './caller-lock.ts';
import { IS_STANDBY, onPrimary, refuseStandby } from './errors.ts';
import { prepare, type RunPrepared } from './prepared.ts';
import { RECORDED_COLUMNS, toRecord, type RecordedRow } from './rows.ts';

type Row = RecordedRow & Pick<TokenRow, 'endReason'>;

const COLUMNS = Prisma.sql`${RECORDED_COLUMNS}, end_reason AS "endReason"`;

/**
 * See TokenStore.revokeAll. A first statement locks only the user, so that the next one sees every change that it
 * waited for. That one locks the caller's row and the rows to end.
 */
export async function endTokens(
  tx: AccountTransaction,
  userId: number,
  { at, reason, usedSince, caller, keepsCaller, keepsLongLived = false }: Ending,
): Promise<{ ended: TokenRecord[]; before: number | null }> {
  const owner = BigInt(userId);
  const user = await lockUser(tx, userId);
  if (caller !== null) requireActive(user);
  const locked = await tx.$queryRaw<CallerRow[]>`
    SELECT ${CALLER_COLUMNS} FROM tokens
    WHERE user_id = ${owner} AND (id = ${BigInt(caller?.tokenId ?? 0)} OR ${isEnding(usedSince, keepsLongLived)})
    ORDER BY id FOR NO KEY UPDATE`;
  if (caller !== null) requireLive(user, locked, caller);
  const keep = keepsCaller && caller ? caller.tokenId : null;
  const ending = locked.map(({ id }) => id).filter((id) => Number(id) !== keep);
  const ended = await endRows(tx, Prisma.sql`id = ANY(${ending})`, { at, reason });
  if (keep !== null || keepsLongLived) return { ended, before: null };
  // The newest token is always an open one.
  const { _max: greatest } = await tx.token.aggregate({
    where: { userId: owner, endedAt: null },
    _max: { id: true },
  });
  return { ended, before: Number(greatest.id ?? 0) };
}

/**
 * Ends the tokens among these that have not ended. Whoever reports, audits or settles ends takes them from its answer:
 * between an earlier read and this write, another request may have ended one of them, and has reported that.
 * @param which a condition on `tokens`. Of several rows, the transaction has locked each, in the order of ids.
 * @param ending.at milliseconds since 1970.
 * @returns those that this call has ended, in the order of ids.
 */
export async function endRows(
  tx: AccountTransaction,
  which: Prisma.Sql,
  { at, reason }: { at: number; reason: EndReason },
): Promise<TokenRecord[]> {
  // The end of a session that seemed over is not written any more: the theft is the end.
  const written = reason === 'reuse' ? Prisma.sql`, ended_at = NULL` : Prisma.empty;
  const rows = await tx.$queryRaw<Row[]>`
    UPDATE tokens SET revoked_at = ${new Date(at)}, pending = true, end_reason = ${reason} ${written}
    WHERE ${which} AND revoked_at IS NULL
    RETURNING ${COLUMNS}`;
  return rows.map(toRecord).sort((one, other) => one.id - other.id);
}

/** True for a long-lived token (unless they are kept), or a session used since (µs), that is not revoked. */
function isEnding(usedSince: number, keepsLongLived: boolean): Prisma.Sql {
  return Prisma.sql`(ended_at IS NULL AND revoked_at IS NULL AND CASE WHEN type = 'llt' THEN NOT ${keepsLongLived}
    ELSE latest > ${BigInt(usedSince)} END)`;
}

/** A token whose end is not written. */
export type OpenToken = TokenRecord & { endReason: string | null };

/**
 * The user's tokens without a written end, in the order of ids: live tokens, sessions that expired and are not purged
 * yet, and what ended since the user got the last token (`writeEnds`).
 */
export async function openTokens(run: RunPrepared, userId: number): Promise<OpenToken[]> {
  return (await openAccountsOf(run, [userId])).flatMap(({ open }) => open);
}

/** What the list of an account's tokens shows. */
export interface OpenAccount {
  open: OpenToken[];
  locale: string | null;
}

/** @returns one for each user, in their order. */
export async function openAccountsOf(run: RunPrepared, userIds: readonly number[]): Promise<OpenAccount[]> {
  const accounts = new Map<number, OpenAccount>(
    userIds.map((userId) => [userId, { open: [], locale: null }]),
  );
  for (const row of refuseStandby(await run<ListedRow>(OPEN, [userIds]))) {
    const account = accounts.get(Number(row.owner));
    if (!account) continue;
    account.locale = row.locale;
    if (row.id !== null) account.open.push({ ...toRecord(row), endReason: row.endReason });
  }
  return userIds.map((userId) => accounts.get(userId) ?? { open: [], locale: null });
}

type ListedRow = { isStandby: boolean; owner: bigint | null; locale: string | null } & ({ id: null } | Row);

// The user's columns have names of their own, which no column of a token has.
const OPEN = prepare(`
  SELECT ${IS_STANDBY.text}, owner, owner_locale AS locale, ${COLUMNS.text} FROM (SELECT) AS one
  LEFT JOIN (SELECT id AS owner, locale AS owner_locale FROM users WHERE id = ANY($1::bigint[])) AS owners ON true
  LEFT JOIN tokens ON user_id = owner AND ended_at IS NULL ORDER BY id`);

/**
 * Writes when tokens ended. Call it in the transaction that adds a token, under the lock of the user, and as the last
 * statement that locks tokens: it skips locked ones, so that it waits for no other transaction.
 */
export async function writeEnds(
  tx: Prisma.TransactionClient,
  open: readonly OpenToken[],
  lifetimes: Lifetimes,
  now: number,
): Promise<void> {
  const ends = open
    .map((token) => ({ ...token, endedAt: finalEnd(token, token.endReason, lifetimes, now) }))
    .filter(({ endedAt }) => endedAt !== null);
  if (ends.length === 0) return;
  // A replica whose clock is ahead must not hide a token that is good: this database's clock decides.
  await tx.$executeRaw`
    WITH given AS (
      SELECT * FROM unnest(${ends.map(({ id }) => BigInt(id))}::bigint[],
        ${ends.map(({ endedAt }) => new Date(endedAt ?? 0))}::timestamptz[]) AS given(id, ended_at)
    ), locked AS MATERIALIZED (
      SELECT tokens.id, given.ended_at FROM tokens JOIN given USING (id)
      WHERE revoked_at IS NOT NULL OR expires_at < clock_timestamp()
        OR (type = 'session' AND given.ended_at < clock_timestamp() - interval '1 day')
      FOR NO KEY UPDATE OF tokens SKIP LOCKED
    )
    UPDATE tokens SET ended_at = locked.ended_at FROM locked WHERE tokens.id = locked.id`;
}

/** See TokenStore.listEnded. The page of written ends and all open tokens, as one statement sees them. */
export async function findEnded(
  prisma: PrismaClient,
  userId: number,
  { since, now, limit, before }: Parameters<TokenStore['listEnded']>[1],
  lifetimes: Lifetimes,
): Promise<EndedToken[]> {
  const owner = BigInt(userId);
  const isAfter = before
    ? Prisma.sql`AND (ended_at, id) < (${new Date(before.endedAt)}, ${BigInt(before.id)})`
    : Prisma.empty;
  const rows = await onPrimary<Row & Pick<TokenRow, 'endedAt'>>(
    prisma,
    Prisma.sql`
      (SELECT ${COLUMNS}, ended_at AS "endedAt" FROM tokens
        WHERE user_id = ${owner} AND ended_at > ${new Date(since)} ${isAfter}
        ORDER BY ended_at DESC, id DESC LIMIT ${limit})
      UNION ALL
      (SELECT ${COLUMNS}, ended_at FROM tokens WHERE user_id = ${owner} AND ended_at IS NULL)`,
  );
  return rows
    .flatMap(
      (row) => asEnded(toRecord(row), row.endReason, lifetimes, now, row.endedAt?.getTime() ?? null) ?? [],
    )
    .filter((ended) => ended.endedAt > since && (!before || newestFirst(before, ended) < 0))
    .sort(newestFirst)
    .slice(0, limit);
}
