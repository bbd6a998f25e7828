import type { LoginName } from '../identifiers.ts';
import type { MailKind } from '../mail-kinds.ts';
import type { TokenKey } from '../principal.ts';
import type { User } from '../user.ts';
import type { Address } from '../users/account.ts';

/** For how long a mail that was taken is hidden from other mailers, in milliseconds. */
export const MAIL_HIDDEN = 60_000;
/** For how long a mail is wanted, and counts for the limit, in milliseconds. */
export const MAIL_WANTED = 3_600_000;
/** The most mails of one kind that an account gets in that time. */
export const MAX_MAILS = 3;

/** A mail for a mailer. It holds the only copy of its token. */
export interface TakenMail extends Address {
  id: number;
  kind: MailKind;
  token: string;
  /** Of the token, in milliseconds since 1970. */
  expiresAt: number;
  user: User;
}

/**
 * The mails that accounts want, and what proves their addresses. Whatever disables or deletes an account, or changes or
 * proves its address, also withdraws its mails and tokens in the same commit. Every commit locks the user's row before
 * the mail's. Every method fails with AuthError('unavailable') when the database is away, and those of a caller or a
 * token also with `rate_limited` as `Lanes.run`.
 */
export interface MailStore {
  /** Fails if nothing could be written now. Takes no connection of those that the other methods use. */
  check(): Promise<void>;

  /**
   * Wants a mail with a reset token for the account of a name. A no-op without such an account, for a disabled one, and
   * for one that has had `MAX_MAILS`.
   */
  wantReset(name: LoginName): Promise<void>;

  /**
   * Wants a mail that proves the caller's address.
   * @returns whether it is proved already, and if not, the milliseconds until the account may want such a mail: 0 if it
   * wants one now.
   * @throws AuthError `invalid_token` if the caller's session has ended, or the user was deleted or disabled meanwhile
   */
  wantVerification(caller: TokenKey): Promise<{ isVerified: boolean; freeIn: number }>;

  /**
   * Takes the mails that have waited longest, and hides them for `MAIL_HIDDEN`. Two calls never take one mail at the
   * same time. Each mail gets a new token in place of its earlier one.
   */
  take(limit: number, newToken: (kind: MailKind) => string): Promise<TakenMail[]>;

  /** A mail was handed over. A no-op if it is gone. */
  settle(id: number): Promise<void>;

  /**
   * Uses a token up, which proves the address that its account has.
   * @returns the account; null if the token is unknown, used, replaced, voided or expired.
   */
  verify(tokenHash: Uint8Array): Promise<number | null>;

  /** How long the oldest mail has been wanted, in milliseconds; 0 if none is, or no service may take mails. */
  oldest(): Promise<number>;
}
