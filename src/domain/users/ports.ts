import type { CallerKey } from '../principal.ts';
import type { NewSession } from '../tokens/ports.ts';
import type { LoginName } from '../identifiers.ts';
import type { User } from '../user.ts';
import type { UniqueField, WantedNames } from './taken.ts';

export interface NewUser {
  username: string;
  email: string;
  name: string;
  passwordHash: Uint8Array;
  /** As in `Account`. */
  locale: string | null;
}

/** New names in their canonical forms; those that are absent stay. */
export interface ChangedNames {
  username?: string;
  name?: string;
  email?: string;
}

/** What an owner may change. */
export interface OwnChanges extends ChangedNames {
  /** null removes it. */
  locale?: string | null;
}

/** An account, as a login needs it. */
export interface LoginAccount {
  user: User;
  /** Of ours, or the text of another system's. */
  passwordHash: Uint8Array;
  /** How often the password was changed. */
  passwordVersion: number;
  /** When it was last enabled again, in milliseconds since 1970; 0 for never. */
  enabledAt: number;
  /** The fingerprints of callers that have logged in recently. */
  knownCallers: readonly string[];
}

/** An account, as a change of its password or names needs it. */
export interface OwnAccount extends LoginAccount {
  email: string;
}

/**
 * The accounts. Every method fails with AuthError('unavailable') when the database is away, and each that takes a lock
 * also with `rate_limited` as `Lanes.run`.
 */
export interface UserStore {
  /**
   * Adds an account and its first session in one transaction, so that an account never lacks its session. The caller's
   * device becomes known to it.
   * @throws AuthError `username_taken` (also by a lookalike), `email_taken`
   */
  addWithSession(user: NewUser, session: NewSession): Promise<{ userId: number; tokenId: number }>;

  /**
   * Which of these other accounts have, a username also by a lookalike.
   * @param except the account whose own names do not count.
   */
  findTaken(wanted: WantedNames, except?: number): Promise<UniqueField[]>;

  /**
   * Changes an account's names and locale, under the lock of its row and of the caller's token. A change of the e-mail
   * address voids the account's reset token. With EMAIL_VERIFICATION, another address or spelling becomes pending instead,
   * and wants a mail that proves it; the one in force withdraws it.
   * What the account has already changes nothing.
   * @param passwordVersion of the password that the caller has proved to know; null if none was needed.
   * @throws AuthError `invalid_token` if the caller's session has ended, or the user was deleted or disabled meanwhile;
   * `invalid_credentials` if the password was changed meanwhile; `login_too_old` as `CallerKey` says; `username_taken`
   * (also by a lookalike), `email_taken`; `rate_limited` with the reason `mails` if the account or the address has had its
   * mails
   */
  change(
    caller: CallerKey,
    changes: OwnChanges,
    passwordVersion: number | null,
  ): Promise<{ user: User; isChanged: boolean; isPending: boolean }>;

  /** The account of a name; null if there is none. */
  findForLogin(name: LoginName): Promise<LoginAccount | null>;

  /** The account of an id; null if there is none. */
  findOwn(userId: number): Promise<OwnAccount | null>;

  /** Replaces the hash, unless it has changed since it was read. */
  replaceHash(userId: number, from: Uint8Array, to: Uint8Array): Promise<void>;
}
