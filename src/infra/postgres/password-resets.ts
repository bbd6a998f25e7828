import type { AccountKey } from '../../domain/identifiers.ts';
import type { IssuedReset } from '../../domain/passwords/password-store.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { lockUser } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors, onPrimary } from './errors.ts';
import { inLaneOf } from './names.ts';

/** A reset token that can be used now, by this database's clock. */
export const UNEXPIRED = Prisma.sql`expires_at > clock_timestamp()`;

/** The tokens that can reset an account: what an operator or a service made, and what was mailed. */
export const RESETS = Prisma.sql`(
  SELECT user_id, token_hash, expires_at FROM password_resets
  UNION ALL SELECT user_id, token_hash, expires_at FROM mailed_resets)`;

/** Voids the token that an operator or a service made, under the lock of the user's row. A trigger voids a mailed one. */
export async function voidReset(tx: Prisma.TransactionClient, userId: bigint): Promise<void> {
  await tx.$executeRaw`DELETE FROM password_resets WHERE user_id = ${userId}`;
}

/** The tables of one-time tokens. */
type Table = 'password_resets' | 'mailed_resets' | 'email_verifications';

/**
 * Uses a one-time token up and does what it is for, in one commit. A first read, without a lock, finds its account, whose
 * lane is then entered. Under the lock of the user's row the token is looked up again.
 * @param tables of the kinds that it may be of.
 * @returns null if the token is unknown, used, replaced, voided or expired.
 * @throws AuthError `unavailable` at a standby, which may not have heard of the token yet, and as `Lanes.run`
 */
export async function withToken<Result>(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  tables: readonly Table[],
  tokenHash: Uint8Array,
  work: (tx: AccountTransaction, userId: number) => Promise<Result>,
): Promise<Result | null> {
  const token = new Uint8Array(tokenHash);
  const owners = tables.map(
    (table) =>
      Prisma.sql`SELECT user_id AS id FROM ${Prisma.raw(table)} WHERE token_hash = ${token} AND ${UNEXPIRED}`,
  );
  const [owner] = await onPrimary<{ id: bigint }>(prisma, Prisma.join(owners, ' UNION ALL '));
  if (!owner) return null;
  const userId = Number(owner.id);
  return inLane(userId, 'proof', async (tx) => {
    await lockUser(tx, userId);
    let used = 0;
    for (const table of tables)
      used += await tx.$executeRaw`
        DELETE FROM ${Prisma.raw(table)} WHERE token_hash = ${token} AND user_id = ${userId} AND ${UNEXPIRED}`;
    return used === 0 ? null : work(tx, userId);
  });
}

/**
 * Gives accounts one-time tokens in place of earlier ones, under the locks of the users' rows.
 * @param ttl seconds.
 * @returns when each account's expires, in milliseconds since 1970.
 */
export async function replaceTokens(
  tx: Prisma.TransactionClient,
  table: Table,
  tokens: readonly { userId: bigint; tokenHash: Uint8Array }[],
  ttl: number,
): Promise<Map<bigint, number>> {
  const hashes = tokens.map(({ tokenHash }) => Buffer.from(tokenHash).toString('hex'));
  const rows = await tx.$queryRaw<{ id: bigint; expiresAt: Date }[]>`
    INSERT INTO ${Prisma.raw(table)} (user_id, token_hash, expires_at)
    SELECT id, decode(hash, 'hex'), clock_timestamp() + ${ttl} * interval '1 second'
    FROM unnest(${tokens.map(({ userId }) => userId)}::bigint[], ${hashes}::text[]) AS given(id, hash)
    ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, expires_at = excluded.expires_at
    RETURNING user_id AS id, expires_at AS "expiresAt"`;
  return new Map(rows.map(({ id, expiresAt }) => [id, expiresAt.getTime()]));
}

/**
 * Gives an account a reset token in place of an earlier one that was not mailed.
 * @param ttl seconds.
 * @returns null if there is no such user.
 * @throws AuthError `rate_limited`, `unavailable`
 */
export async function issueReset(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  key: AccountKey,
  tokenHash: Uint8Array,
  ttl: number,
): Promise<IssuedReset | null> {
  return mapDatabaseErrors(() =>
    inLaneOf(postgres, key, async (tx, isIt) => {
      const [user] = await tx.$queryRaw<{ id: bigint; disabled: boolean }[]>`
        SELECT id, disabled_at IS NOT NULL AS disabled FROM users WHERE ${isIt} FOR NO KEY UPDATE`;
      if (!user) return null;
      const ends = await replaceTokens(tx, 'password_resets', [{ userId: user.id, tokenHash }], ttl);
      return { userId: Number(user.id), expiresAt: ends.get(user.id) ?? 0, disabled: user.disabled };
    }),
  );
}

/** Deletes expired reset tokens. @throws AuthError `unavailable` */
export async function purgeResets(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets WHERE NOT ${UNEXPIRED}`);
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM mailed_resets WHERE NOT ${UNEXPIRED}`);
}

/** Voids every reset token: after a restore, one that was used since the backup would be good again. */
export async function voidAllResets(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets`);
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM mailed_resets`);
}
