import type { AccountKey } from '../../domain/identifiers.ts';
import type { IssuedReset } from '../../domain/passwords/password-store.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';
import { whereAccount } from './names.ts';

/** A reset token that can be used now, by this database's clock. */
export const UNEXPIRED = Prisma.sql`expires_at > clock_timestamp()`;

/** Voids the account's reset token, under the lock of the user's row. */
export async function voidReset(tx: Prisma.TransactionClient, userId: bigint): Promise<void> {
  await tx.$executeRaw`DELETE FROM password_resets WHERE user_id = ${userId}`;
}

/**
 * Gives an account a reset token in place of an earlier one.
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
      const [row] = await tx.$queryRaw<{ expires_at: Date }[]>`
        INSERT INTO password_resets (user_id, token_hash, expires_at)
        VALUES (${user.id}, ${new Uint8Array(tokenHash)}, clock_timestamp() + ${ttl} * interval '1 second')
        ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, expires_at = excluded.expires_at
        RETURNING expires_at`;
      return { userId: Number(user.id), expiresAt: row?.expires_at.getTime() ?? 0, disabled: user.disabled };
    }),
  );
}

/** Deletes expired reset tokens. @throws AuthError `unavailable` */
export async function purgeResets(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets WHERE expires_at <= now()`);
}

/** Voids every reset token: after a restore, one that was used since the backup would be good again. */
export async function voidAllResets(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM password_resets`);
}
