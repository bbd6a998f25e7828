import { AuthError } from '../../domain/errors.ts';
import type { PasswordStore, ResetAccount } from '../../domain/passwords/password-store.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import type { Postgres } from './client.ts';
import { endTokens } from './ended-tokens.ts';
import { mapDatabaseErrors } from './errors.ts';
import { findUnused, proveAddress, RESETS, withToken } from './one-time-tokens.ts';
import { GIVEN_ADDRESS } from './rows.ts';
import { wantNotice } from './wanted-mails.ts';
import { voidReset } from './password-resets.ts';

/** Clears what stands beside a hash of another system. */
const OWN_HASH = { importedHash: null, importedCost: null };

type FoundReset = Omit<ResetAccount, 'userId'> & { id: bigint };

/**
 * Passwords and reset tokens in PostgreSQL. Every commit locks the user's row before the reset token's.
 * @param notices whether a changed password wants a notice.
 */
export function makePasswordStore(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  notices = false,
): PasswordStore {
  const { prisma, inLane } = postgres;
  return {
    change: (caller, { version, passwordHash, keepsLongLived, ...ending }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          // Locks the user's row and checks the caller before anything else.
          const { ended } = await endTokens(tx, caller.userId, {
            ...ending,
            reason: 'password',
            caller,
            keepsCaller: true,
            keepsLongLived,
          });
          if (!(await setPassword(tx, caller.userId, passwordHash, version)))
            throw new AuthError('invalid_credentials', { reason: 'password' });
          if (notices) await wantNotice(tx, BigInt(caller.userId), 'password_changed');
          return ended;
        }),
      ),

    findReset: (tokenHash) =>
      mapDatabaseErrors(async () => {
        const columns = Prisma.sql`username, name, ${GIVEN_ADDRESS} AS email`;
        const row = await findUnused<FoundReset>(prisma, RESETS, tokenHash, columns);
        return row
          ? { userId: Number(row.id), username: row.username, name: row.name, email: row.email }
          : null;
      }),

    redeem: (tokenHash, { passwordHash, ...ending }) =>
      mapDatabaseErrors(() =>
        withToken(postgres, RESETS, tokenHash, async (tx, { kind }, { user: { id: userId } }) => {
          await setPassword(tx, userId, passwordHash);
          if (notices) await wantNotice(tx, BigInt(userId), 'password_changed');
          // What was handed out may have been read by an operator, so it proves nothing.
          const proved = kind === 'handed_out' ? null : await proveAddress(tx, BigInt(userId));
          const all = { reason: 'password', caller: null, keepsCaller: false } as const;
          return { userId, proved, ...(await endTokens(tx, userId, { ...ending, ...all })) };
        }),
      ),
  };
}

/**
 * Replaces the password under the lock of the user's row, and voids the reset tokens.
 * @param version changes nothing unless the password has this version.
 * @returns whether it has changed.
 */
async function setPassword(
  tx: AccountTransaction,
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
