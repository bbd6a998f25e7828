import type { LoginName } from '../../domain/users/identifiers.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Names an account: by username or e-mail address in its canonical form, or by id. */
export type UserKey = LoginName | { id: number };

/** The outcome for an account that was disabled or enabled. */
export interface UserStatus {
  userId: number;
  /** How many tokens this ended. */
  ended: number;
}

/**
 * Disables the account and ends all its tokens in one commit. A concurrent login, or creation of a long-lived token,
 * waits for the row and then finds the account disabled. The replicas set the tombstones, as for any revocation.
 * @returns null if there is no such user.
 */
export async function disableUser(prisma: PrismaClient, key: UserKey): Promise<UserStatus | null> {
  return mapDatabaseErrors(() =>
    prisma.$transaction(async (tx) => {
      const [user] = await tx.$queryRaw<{ id: bigint }[]>`
        SELECT id FROM users WHERE ${whereUser(key)} FOR UPDATE`;
      if (!user) return null;
      await tx.$executeRaw`
        UPDATE users SET disabled_at = coalesce(disabled_at, now()) WHERE id = ${user.id}`;
      // Lock in the order of ids, as write-behind does.
      const ended = await tx.$executeRaw`
        UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'admin' WHERE id IN (
          SELECT id FROM tokens WHERE user_id = ${user.id} AND revoked_at IS NULL ORDER BY id FOR UPDATE)`;
      return { userId: Number(user.id), ended };
    }),
  );
}

/** Ended tokens stay ended; the user logs in again. @returns null if there is no such user. */
export async function enableUser(prisma: PrismaClient, key: UserKey): Promise<UserStatus | null> {
  return mapDatabaseErrors(async () => {
    const [user] = await prisma.$queryRaw<{ id: bigint }[]>`
      UPDATE users SET disabled_at = NULL WHERE ${whereUser(key)} RETURNING id`;
    return user ? { userId: Number(user.id), ended: 0 } : null;
  });
}

/** @returns null if there is no such user. */
export async function findUserId(prisma: PrismaClient, key: UserKey): Promise<number | null> {
  const [user] = await mapDatabaseErrors(
    () => prisma.$queryRaw<{ id: bigint }[]>`SELECT id FROM users WHERE ${whereUser(key)}`,
  );
  return user ? Number(user.id) : null;
}

/** How many revocations of the user have no confirmed tombstone yet. */
export async function pendingOf(prisma: PrismaClient, userId: number): Promise<number> {
  return mapDatabaseErrors(() => prisma.token.count({ where: { userId: BigInt(userId), pending: true } }));
}

function whereUser(key: UserKey): Prisma.Sql {
  if ('id' in key) return Prisma.sql`id = ${key.id}`;
  return 'email' in key ? Prisma.sql`email = ${key.email}` : Prisma.sql`username = ${key.username}`;
}
