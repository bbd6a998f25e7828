import { AuthError } from '../../domain/errors.ts';
import type { PasswordStore, ResetAccount } from '../../domain/passwords/password-store.ts';
import type { Prisma, PrismaClient } from '../../generated/prisma/client.ts';
import { lockUser } from './caller-lock.ts';
import { endTokens } from './ended-tokens.ts';
import { mapDatabaseErrors } from './errors.ts';
import { GIVEN_ADDRESS } from './rows.ts';
import { UNEXPIRED, voidReset } from './password-resets.ts';

/** Clears what stands beside a hash of another system. */
const OWN_HASH = { importedHash: null, importedCost: null };

/** Passwords and reset tokens in PostgreSQL. Every commit locks the user's row before the reset token's. */
export function makePasswordStore(prisma: PrismaClient): PasswordStore {
  return {
    change: (caller, { version, passwordHash, keepsLongLived, ...ending }) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          // Locks the user's row and checks the caller before anything else.
          const { ended } = await endTokens(tx, caller.userId, {
            ...ending,
            reason: 'password',
            caller: caller.tokenId,
            keepsCaller: true,
            keepsLongLived,
          });
          if (!(await setPassword(tx, caller.userId, passwordHash, version)))
            throw new AuthError('invalid_credentials', { reason: 'password' });
          return ended;
        }),
      ),

    findReset: (tokenHash) =>
      mapDatabaseErrors(async () => {
        const [row] = await prisma.$queryRaw<(Omit<ResetAccount, 'userId'> & { id: bigint })[]>`
          SELECT id, username, name, ${GIVEN_ADDRESS} AS email FROM password_resets JOIN users ON users.id = user_id
          WHERE token_hash = ${new Uint8Array(tokenHash)} AND ${UNEXPIRED}`;
        return row
          ? { userId: Number(row.id), username: row.username, name: row.name, email: row.email }
          : null;
      }),

    redeem: (tokenHash, { passwordHash, ...ending }) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const token = new Uint8Array(tokenHash);
          const [found] = await tx.$queryRaw<{ id: bigint }[]>`
            SELECT user_id AS id FROM password_resets WHERE token_hash = ${token}`;
          if (!found) return null;
          const userId = Number(found.id);
          await lockUser(tx, userId);
          // Under the lock: another request may have used, replaced or voided the token.
          const used = await tx.$executeRaw`
            DELETE FROM password_resets WHERE token_hash = ${token} AND ${UNEXPIRED}`;
          if (used === 0) return null;
          await setPassword(tx, userId, passwordHash);
          const all = { reason: 'password', caller: null, keepsCaller: false } as const;
          return { userId, ...(await endTokens(tx, userId, { ...ending, ...all })) };
        }),
      ),
  };
}

/**
 * Replaces the password under the lock of the user's row, and voids the reset token.
 * @param version changes nothing unless the password has this version.
 * @returns whether it has changed.
 */
async function setPassword(
  tx: Prisma.TransactionClient,
  userId: number,
  passwordHash: Uint8Array,
  version?: number,
): Promise<boolean> {
  const { count } = await tx.user.updateMany({
    where: { id: BigInt(userId), ...(version !== undefined && { passwordVersion: version }) },
    data: { ...OWN_HASH, passwordHash: new Uint8Array(passwordHash), passwordVersion: { increment: 1 } },
  });
  if (count === 0) return false;
  await voidReset(tx, BigInt(userId));
  return true;
}
