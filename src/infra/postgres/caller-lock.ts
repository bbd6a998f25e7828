import { CLOCK_TOLERANCE } from '../../domain/clock.ts';
import type { CallerKey } from '../../domain/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { User } from '../../domain/user.ts';
import { Prisma, type User as UserRow } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { SERVED_COLUMNS, toUser } from './rows.ts';

// The order of locks. Every transaction keeps it, so that none waits for one that waits for it:
//
// 1. The user's row. Whoever holds it is alone with what hangs on the account (factors, passkeys, devices,
//    resets, mails), so those rows have no order among themselves. But a new passkey may wait for one of
//    another account with the same credential, which then waits for nothing.
// 2. Its tokens, in the order of ids: write-behind locks the tokens of many users, without the users' rows.
//
// Rows of several users are locked in the order of ids as well, or skipped if somebody else holds them.

/**
 * Locks a user's row until the transaction ends. All code that adds tokens or ends all of them takes this lock, so that
 * limits hold when logins race, and no login succeeds while the account is being disabled.
 * @returns null if there is no such user.
 */
export async function lockUser(tx: AccountTransaction, userId: number): Promise<LockedUser | null> {
  const [row] = await tx.$queryRaw<UserRow[]>`
    SELECT ${SERVED_COLUMNS}, password_version AS "passwordVersion", enabled_at AS "enabledAt",
      factor_since AS "factorSince"
    FROM users WHERE id = ${BigInt(userId)} FOR NO KEY UPDATE`;
  if (!row) return null;
  const { passwordVersion, enabledAt, factorSince } = row;
  return {
    user: toUser(row),
    passwordVersion,
    enabledAt: enabledAt?.getTime() ?? 0,
    factorSince: factorSince?.getTime() ?? null,
  };
}

export interface LockedUser {
  user: User;
  /** How often its password was changed. */
  passwordVersion: number;
  /** When it was last enabled again, in milliseconds since 1970; 0 for never. */
  enabledAt: number;
  /** Since when a login takes a second factor, in milliseconds since 1970; null if it takes none. */
  factorSince: number | null;
}

/** @throws AuthError `invalid_token` unless the user may act */
export function requireActive(locked: LockedUser | null): asserts locked {
  if (locked?.user.disabled !== false)
    throw new AuthError('invalid_token', { reason: locked ? 'disabled' : 'gone' });
}

/**
 * Locks the user, the caller's token and the tokens that the operation changes, and reads the caller's token again: the
 * operation takes effect only if its caller is good at that moment. `FOR KEY SHARE` is too weak: it lets `revoked_at`
 * change.
 * @throws AuthError `invalid_token`, `login_too_old`
 */
export async function lockCaller(
  tx: AccountTransaction,
  caller: CallerKey,
  targets: readonly number[] = [],
): Promise<LockedUser> {
  const { userId, tokenId } = caller;
  const user = await lockUser(tx, userId);
  requireActive(user);
  const locked = await tx.$queryRaw<CallerRow[]>`
    SELECT ${CALLER_COLUMNS} FROM tokens
    WHERE user_id = ${BigInt(userId)} AND id = ANY(${[tokenId, ...targets].map(BigInt)})
    ORDER BY id FOR NO KEY UPDATE`;
  requireLive(user, locked, caller);
  return user;
}

/** A row of a locking statement. */
export interface CallerRow {
  id: bigint;
  revokedAt: Date | null;
  createdAt: Date;
}

export const CALLER_COLUMNS = Prisma.sql`id, revoked_at AS "revokedAt", created_at AS "createdAt"`;

/**
 * @param locked tokens of the caller's user.
 * @throws AuthError `invalid_token` unless a live caller is among them; `login_too_old` if the change takes the user's
 * second factor, and the caller's session was opened without one, or with an earlier one that was removed
 */
export function requireLive(
  user: LockedUser | null,
  locked: readonly CallerRow[],
  { tokenId, withFactor }: Omit<CallerKey, 'userId'>,
): void {
  const caller = locked.find(({ id }) => Number(id) === tokenId);
  if (caller?.revokedAt !== null)
    throw new AuthError('invalid_token', { reason: caller ? 'revoked' : 'gone' });
  const since = user?.factorSince ?? null;
  if (since === null || withFactor === null) return;
  // A login at a replica whose clock is behind seems to be older than the factor that it took.
  const openedBy = caller.createdAt.getTime() + CLOCK_TOLERANCE * 1000;
  if (!withFactor || openedBy < since) throw new AuthError('login_too_old');
}
