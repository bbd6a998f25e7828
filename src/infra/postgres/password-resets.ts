import type { AccountKey } from '../../domain/identifiers.ts';
import type { IssuedReset } from '../../domain/passwords/password-store.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { lockUser } from './caller-lock.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { whereAccount } from './names.ts';

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

/** As `useToken`, of either kind of reset token. */
export async function useReset(tx: Prisma.TransactionClient, tokenHash: Uint8Array): Promise<number | null> {
  return (await useToken(tx, 'password_resets', tokenHash)) ?? useToken(tx, 'mailed_resets', tokenHash);
}

/**
 * Uses a one-time token up, and locks its user's row before that.
 * @returns the user; null if the token is unknown, used, replaced, voided or expired.
 * @throws AuthError `unavailable` at a standby, which may not have heard of the token yet
 */
export async function useToken(
  tx: Prisma.TransactionClient,
  table: Table,
  tokenHash: Uint8Array,
): Promise<number | null> {
  const token = new Uint8Array(tokenHash);
  const [{ id }] = refuseStandby(
    await tx.$queryRaw<{ id: bigint | null; isStandby: boolean }[]>`
      SELECT ${IS_STANDBY}, found.user_id AS id
      FROM (SELECT) AS one LEFT JOIN ${Prisma.raw(table)} AS found ON found.token_hash = ${token}`,
  );
  if (id === null) return null;
  await lockUser(tx, Number(id));
  // Under the lock: another request may have used, replaced or voided the token.
  const used = await tx.$executeRaw`
    DELETE FROM ${Prisma.raw(table)} WHERE token_hash = ${token} AND ${UNEXPIRED}`;
  return used === 0 ? null : Number(id);
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
 * @throws AuthError `unavailable`
 */
export async function issueReset(
  prisma: PrismaClient,
  key: AccountKey,
  tokenHash: Uint8Array,
  ttl: number,
): Promise<IssuedReset | null> {
  return mapDatabaseErrors(() =>
    prisma.$transaction(async (tx) => {
      const [user] = await tx.$queryRaw<{ id: bigint; disabled: boolean }[]>`
        SELECT id, disabled_at IS NOT NULL AS disabled FROM users WHERE ${await whereAccount(tx, key)} FOR NO KEY UPDATE`;
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
