import type { PrismaClient } from '../../generated/prisma/client.ts';
import { orAuthError } from './errors.ts';

/** An account to be disabled or enabled: by username in its canonical form. */
export interface UserStatus {
  userId: number;
  /** Tokens that this has ended. */
  ended: number;
}

/**
 * Disables the account and ends every token of it in one commit: whoever logs in or creates a long-lived token meanwhile
 * waits for the row, and then finds it disabled. The replicas set the tombstones, as of any revocation.
 * @returns null when there is no such user.
 */
export async function disableUser(prisma: PrismaClient, username: string): Promise<UserStatus | null> {
  return orAuthError(() =>
    prisma.$transaction(async (tx) => {
      const [user] = await tx.$queryRaw<{ id: bigint }[]>`
        SELECT id FROM users WHERE username = ${username} FOR UPDATE`;
      if (!user) return null;
      await tx.$executeRaw`
        UPDATE users SET disabled_at = coalesce(disabled_at, now()) WHERE id = ${user.id}`;
      // In the order of ids, as write-behind takes its locks.
      const ended = await tx.$executeRaw`
        UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'admin' WHERE id IN (
          SELECT id FROM tokens WHERE user_id = ${user.id} AND revoked_at IS NULL ORDER BY id FOR UPDATE)`;
      return { userId: Number(user.id), ended };
    }),
  );
}

/** What was ended stays so: its user logs in again. @returns null when there is no such user. */
export async function enableUser(prisma: PrismaClient, username: string): Promise<UserStatus | null> {
  return orAuthError(async () => {
    const [user] = await prisma.$queryRaw<{ id: bigint }[]>`
      UPDATE users SET disabled_at = NULL WHERE username = ${username} RETURNING id`;
    return user ? { userId: Number(user.id), ended: 0 } : null;
  });
}

/** @param username in its canonical form. @returns null when there is no such user. */
export async function findUserId(prisma: PrismaClient, username: string): Promise<number | null> {
  const user = await orAuthError(() => prisma.user.findUnique({ where: { username }, select: { id: true } }));
  return user && Number(user.id);
}

/** How many revocations of the user have no tombstone yet, as far as is known. */
export async function pendingOf(prisma: PrismaClient, userId: number): Promise<number> {
  return orAuthError(() => prisma.token.count({ where: { userId: BigInt(userId), pending: true } }));
}
