import type { LoginName } from '../identifiers.ts';
import type { MailKind, NoticeEvent, TokenKind } from '../mail-kinds.ts';
import type { KnownAccount } from '../passwords/guessing-limits.ts';
import type { TokenKey } from '../principal.ts';
import type { User } from '../user.ts';
import type { ProvedAddress } from './own-address.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/**
 * For how long a mail is wanted after it was asked for, in milliseconds. Its user waits for most; nobody waits for an
 * invitation or a notice.
 */
export const MAIL_WANTED: Readonly<Record<MailKind, number>> = {
  password_reset: HOUR,
  email_verification: HOUR,
  email_change: HOUR,
  invitation: 24 * HOUR,
  notice: 24 * HOUR,
};

/**
 * For how long a mail is hidden from other mailers after each time that it was taken, in milliseconds. After the last one
 * it is not taken again.
 */
export const MAIL_HIDDEN: readonly number[] = [1, 2, 4, 8, 16, 32].map((minutes) => minutes * MINUTE);

/** The most mails of one kind that an account gets in `MAIL_WINDOW`, of one event if they are notices. */
export const MAX_MAILS = 3;

/**
 * The window of resets, in milliseconds: the life of a token, so that somebody who is refused has been sent one that is
 * still good, and the limit keeps nobody out for longer.
 * @param ttl PASSWORD_RESET_TTL in seconds.
 */
export function resetWindow(ttl: number): number {
  return Math.min(Math.max(ttl * 1000, 20 * MINUTE), HOUR);
}

interface AnyMail {
  id: number;
  /** Where it goes, as its owner gave it. */
  email: string;
  /** Whether that address is proved. */
  verified: boolean;
  user: User;
  /** BCP 47; null if the user's language is not known. */
  locale: string | null;
}

/** A mail with the only copy of its token. */
export interface TokenMail extends AnyMail {
  kind: TokenKind;
  token: string;
  /** Of the token, in milliseconds since 1970. */
  expiresAt: number;
}

/** A mail that tells of something. */
export interface NoticeMail extends AnyMail {
  kind: 'notice';
  event: NoticeEvent;
  /** When it happened, in milliseconds since 1970. */
  at: number;
}

/** A mail for a mailer. */
export type TakenMail = TokenMail | NoticeMail;

/** What a report that an address cannot be reached did to an account. */
export interface UndeliverableAccount {
  user: User;
  /** The address is in force: the account has no other. */
  isInForce: boolean;
  /** Whether this report was the first since the address was proved, changed or reported. */
  isNews: boolean;
  /** The kinds of its mails that waited for the address. */
  settled: MailKind[];
}

/** Why an account cannot be invited: `used` if it has had a session or another password than its first. */
export type InvitationObstacle = 'disabled' | 'undeliverable' | 'used';

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
   * Wants a mail with a reset token for the account of a name. A no-op without such an account, for a disabled one, for
   * one whose address cannot be reached, and for one that has had `MAX_MAILS`.
   * @param isKnown whether the account knows the device that asks. Those that it knows have a limit of their own, so that
   * strangers do not use up the owner's.
   */
  wantReset(name: LoginName, isKnown: (account: KnownAccount) => boolean): Promise<void>;

  /**
   * Wants a mail that proves the caller's address.
   * @returns whether it is proved already and can be reached, and if not, the milliseconds until the account may want such
   * a mail: 0 if it wants one now.
   * @throws AuthError `invalid_token` if the caller's session has ended, or the user was deleted or disabled meanwhile
   */
  wantVerification(caller: TokenKey): Promise<{ isVerified: boolean; freeIn: number }>;

  /**
   * Wants a mail with which the user of a new account sets the first password.
   * @returns why it wants none, or the milliseconds until it may want one: 0 if it wants one now. null if there is no such
   * account.
   */
  wantInvitation(userId: number): Promise<{ obstacle: InvitationObstacle | null; freeIn: number } | null>;

  /**
   * Takes the mails of some kinds that have waited longest, and hides them for the time of `MAIL_HIDDEN`. Two calls never
   * take one mail at the same time. Each mail gets a new token, and the earlier ones stay good, since one of them may be
   * in the mailbox: the newest 8 of an account and kind.
   */
  take(
    limit: number,
    kinds: readonly MailKind[],
    newToken: (kind: TokenKind) => string,
  ): Promise<TakenMail[]>;

  /**
   * A mail was handed over.
   * @returns its kind; null if it is gone, or was settled before.
   */
  settle(id: number): Promise<MailKind | null>;

  /**
   * An address cannot be reached. An account that has it in force gets no mails but the proofs that its owner asks for,
   * and one that waits for its proof loses it.
   * @param key its canonical form, of any account or none.
   * @returns the accounts that have or had it, in the order of their ids.
   */
  markUndeliverable(key: string): Promise<UndeliverableAccount[]>;

  /**
   * Uses a token up, which proves the address that its account has. Until it expires, the address changes, or the address
   * counts as unproved again, a repeat finds it.
   * @returns null if the token is unknown, voided or expired.
   */
  verify(tokenHash: Uint8Array): Promise<ProvedAddress | null>;

  /**
   * How long the oldest mail of each kind has been wanted, in milliseconds; 0 if none is, or no service may take mails.
   */
  oldest(): Promise<Record<MailKind, number>>;

  /**
   * Gives up the mails that have used up their tries or their time.
   * @returns the kind of each that this call gave up.
   */
  dropOverdue(): Promise<MailKind[]>;
}
