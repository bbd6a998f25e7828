import type { AccountKey } from '../identifiers.ts';
import type { CallerKey } from '../principal.ts';
import type { TokenRecord } from '../tokens/token-record.ts';
import type { User } from '../user.ts';

/** A new password, and the tokens that end with its commit. */
export interface PasswordChange {
  passwordHash: Uint8Array;
  /** Milliseconds since 1970. */
  at: number;
  /** As in `Ending`. */
  usedSince: number;
}

/** An account that can be reset, for the password policy. */
export interface ResetAccount {
  userId: number;
  username: string;
  name: string;
  email: string;
}

/**
 * Passwords and reset tokens on record. Each change is one commit under the lock of the user's row, and voids the
 * account's reset tokens. Every method fails with AuthError('unavailable') when the database is away, and with
 * `rate_limited` as `Lanes.run`.
 */
export interface PasswordStore {
  /**
   * Replaces the password, and ends the user's sessions with the reason `password`, except the caller's.
   * @param change.version of the password that the caller has proved to know.
   * @returns the tokens that this call has ended.
   * @throws AuthError `invalid_token` if the caller's session has ended, or the user was deleted or disabled meanwhile;
   * `invalid_credentials` if the password was changed meanwhile; `login_too_old` as `CallerKey` says
   */
  change(
    caller: CallerKey,
    change: PasswordChange & { version: number; keepsLongLived: boolean },
  ): Promise<TokenRecord[]>;

  /** The account that this token resets; null if the token is unknown, used, replaced, voided or expired. */
  findReset(tokenHash: Uint8Array): Promise<ResetAccount | null>;

  /**
   * Uses a reset token up: replaces the password, and ends all the user's tokens with the reason `password`. One that was
   * mailed proves the address. Never enables an account.
   * @returns what ended, as `TokenStore.revokeAll`, and the user if the address counted as unproved before; null as
   * `findReset`, at the moment of the commit.
   */
  redeem(
    tokenHash: Uint8Array,
    change: PasswordChange,
  ): Promise<{
    userId: number;
    proved: User | null;
    ended: TokenRecord[];
    before: number | null;
  } | null>;
}

/** A new reset token's account and end. */
export interface IssuedReset {
  userId: number;
  /** Milliseconds since 1970. */
  expiresAt: number;
  disabled: boolean;
}

/**
 * Gives an account a reset token in place of an earlier one that was not mailed.
 * @returns null if there is no such account.
 * @throws AuthError `rate_limited`, `unavailable`
 */
export type ResetIssuer = (key: AccountKey, tokenHash: Uint8Array) => Promise<IssuedReset | null>;
