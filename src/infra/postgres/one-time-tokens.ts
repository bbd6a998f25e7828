import { hashOneTimeToken } from '../../domain/passwords/one-time-token.ts';
import type { ProvedAddress } from '../../domain/mails/own-address.ts';
import type { TokenKind } from '../../domain/mail-kinds.ts';
import type { User } from '../../domain/user.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { lockUser, type LockedUser } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors, onPrimary } from './errors.ts';
import { SERVED_COLUMNS, toUser, type ServedRow } from './rows.ts';

/** How many tokens of an account and kind are good. One that a mailer takes again was perhaps mailed the first time. */
const GOOD_TOKENS = 8;

/** A token that can be used now, by this database's clock. */
const UNEXPIRED = Prisma.sql`expires_at > clock_timestamp()`;

/** A token that an operator or a service made, or one of a mail. */
export type OneTimeKind = 'handed_out' | TokenKind;

/** The kinds that reset an account. */
export const RESETS: readonly OneTimeKind[] = ['handed_out', 'password_reset', 'invitation'];

/** Both tables. The collation is that of the column, since PostgreSQL compares the two kinds by one. */
const TOKENS = Prisma.sql`(
  SELECT user_id, token_hash, 'handed_out'::text COLLATE "C" AS kind, expires_at, NULL::timestamptz AS used_at
  FROM password_resets
  UNION ALL SELECT user_id, token_hash, kind, expires_at, used_at FROM mailed_tokens) AS one_time_tokens`;

/** For statements on `TOKENS`: the token, if it is on record, of one of the kinds, and has not expired. */
function isToken(kinds: readonly OneTimeKind[], tokenHash: Uint8Array): Prisma.Sql {
  return Prisma.sql`
    token_hash = ${new Uint8Array(tokenHash)} AND kind = ANY(${[...kinds]}::text[]) AND ${UNEXPIRED}`;
}

/** A token that is good, under the lock of its user's row. */
export interface OneTimeToken {
  userId: bigint;
  kind: OneTimeKind;
  expiresAt: Date;
  /** Whether it has proved the address that its account still has: then this is a repeat, which changes nothing. */
  isUsed: boolean;
}

/** @returns `user_id` and `columns` of a token's account; null if the token is unknown, used, voided or expired. */
export async function findUnused<Row extends object>(
  prisma: PrismaClient,
  kinds: readonly OneTimeKind[],
  tokenHash: Uint8Array,
  columns: Prisma.Sql,
): Promise<Row | null> {
  const [row] = await onPrimary<Row & { id: bigint }>(
    prisma,
    Prisma.sql`
      SELECT users.id, ${columns} FROM ${TOKENS} JOIN users ON users.id = user_id
      WHERE ${isToken(kinds, tokenHash)} AND used_at IS NULL`,
  );
  return row ?? null;
}

/** Looks a token of the account up, under the lock of its row. */
export async function findToken(
  tx: AccountTransaction,
  userId: number,
  kinds: readonly OneTimeKind[],
  tokenHash: Uint8Array,
): Promise<OneTimeToken | null> {
  const [row] = await tx.$queryRaw<OneTimeToken[]>`
    SELECT user_id AS "userId", kind, expires_at AS "expiresAt", used_at IS NOT NULL AS "isUsed" FROM ${TOKENS}
    WHERE user_id = ${userId} AND ${isToken(kinds, tokenHash)}`;
  return row ?? null;
}

/**
 * Does what a one-time token is for, in one commit, which has to void it. A first read, without a lock, finds its account,
 * whose lane is then entered: by a repeat in a line of its own, since anyone who has seen the link can send it without end.
 * Under the lock of the user's row the token is looked up again.
 * @returns null if the token is unknown, used, voided or expired.
 * @throws AuthError `unavailable` at a standby, which may not have heard of the token yet, and as `Lanes.run`
 */
export async function withToken<Result>(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  kinds: readonly OneTimeKind[],
  tokenHash: Uint8Array,
  work: (tx: AccountTransaction, token: OneTimeToken, locked: LockedUser) => Promise<Result>,
): Promise<Result | null> {
  const [owner] = await onPrimary<{ id: bigint; isUsed: boolean }>(
    prisma,
    Prisma.sql`
      SELECT user_id AS id, used_at IS NOT NULL AS "isUsed" FROM ${TOKENS} WHERE ${isToken(kinds, tokenHash)}`,
  );
  if (!owner) return null;
  const userId = Number(owner.id);
  return inLane(userId, owner.isUsed ? 'repeat' : 'proof', async (tx) => {
    const locked = await lockUser(tx, userId);
    const token = locked && (await findToken(tx, userId, kinds, tokenHash));
    return token && work(tx, token, locked);
  });
}

/**
 * A token that was mailed to the address in force proves it, under the lock of the user's row. It is deliverable again, too.
 * @returns the changed user; null if the address counted as proved already.
 */
export async function proveAddress(tx: AccountTransaction, userId: bigint): Promise<User | null> {
  const [row] = await tx.$queryRaw<ServedRow[]>`
    UPDATE users SET email_verified_at = now(), version = version + 1, changed_at = clock_timestamp(), pending = true
    WHERE id = ${userId} AND (email_verified_at IS NULL OR undeliverable_at IS NOT NULL)
    RETURNING ${SERVED_COLUMNS}`;
  return row ? toUser(row) : null;
}

/** What the repeat of a proof finds: its first try may have failed between the commit and the fast store. */
export async function repeatedProof(tx: AccountTransaction, userId: bigint): Promise<ProvedAddress> {
  const [row] = await tx.$queryRaw<[ServedRow & { pending: boolean }]>`
    SELECT ${SERVED_COLUMNS}, pending FROM users WHERE id = ${userId}`;
  return { user: toUser(row), isNew: false, isPending: row.pending };
}

/**
 * After a token has proved its account's address, which voids its kind: leaves it on record as used, until it expires or
 * the address changes, so that its owner may repeat a request whose answer was lost.
 */
export async function keepUsed(
  tx: AccountTransaction,
  { userId, kind, expiresAt }: OneTimeToken,
  tokenHash: Uint8Array,
): Promise<void> {
  await tx.$executeRaw`DELETE FROM mailed_tokens WHERE user_id = ${userId} AND kind = ${kind}`;
  await tx.$executeRaw`
    INSERT INTO mailed_tokens (user_id, kind, token_hash, expires_at, used_at)
    VALUES (${userId}, ${kind}, ${new Uint8Array(tokenHash)}, ${expiresAt}, clock_timestamp())`;
}

/** A token for a mail. */
export interface NewToken {
  userId: bigint;
  kind: TokenKind;
  token: string;
  /** Seconds. */
  ttl: number;
}

/**
 * Adds tokens beside those that the accounts have, under the locks of the users' rows, and voids all but the newest of
 * each account and kind.
 * @returns when each expires, in milliseconds since 1970, in the order of `tokens`.
 */
export async function addTokens(
  tx: Prisma.TransactionClient,
  tokens: readonly NewToken[],
): Promise<number[]> {
  if (tokens.length === 0) return [];
  const hashes = tokens.map(({ token }) => hashOneTimeToken(token).toString('hex'));
  const userIds = tokens.map(({ userId }) => userId);
  const rows = await tx.$queryRaw<{ hash: string; expiresAt: Date }[]>`
    INSERT INTO mailed_tokens (user_id, kind, token_hash, expires_at)
    SELECT id, kind, decode(hash, 'hex'), clock_timestamp() + ttl * interval '1 second'
    FROM unnest(${userIds}::bigint[], ${tokens.map(({ kind }) => kind)}::text[], ${hashes}::text[],
      ${tokens.map(({ ttl }) => ttl)}::int[]) AS given(id, kind, hash, ttl)
    RETURNING encode(token_hash, 'hex') AS hash, expires_at AS "expiresAt"`;
  await tx.$executeRaw`
    DELETE FROM mailed_tokens USING (
      SELECT id, row_number() OVER (PARTITION BY user_id, kind ORDER BY id DESC) AS place FROM mailed_tokens
      WHERE user_id = ANY(${userIds}) AND used_at IS NULL
    ) AS placed WHERE placed.id = mailed_tokens.id AND place > ${GOOD_TOKENS}`;
  const ends = new Map(rows.map(({ hash, expiresAt }) => [hash, expiresAt.getTime()]));
  return hashes.map((hash) => ends.get(hash) ?? 0);
}

/** Deletes expired tokens. @throws AuthError `unavailable` */
export async function purgeTokens(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets WHERE NOT ${UNEXPIRED}`);
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM mailed_tokens WHERE NOT ${UNEXPIRED}`);
}

/** Voids every token: after a restore, one that was used since the backup would be good again. */
export async function voidAllTokens(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets`);
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM mailed_tokens`);
}
