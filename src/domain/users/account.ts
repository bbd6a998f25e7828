import type { UserStatus } from '../feed/ports.ts';
import type { Ending } from '../tokens/ports.ts';
import type { TokenRecord } from '../tokens/token-record.ts';
import type { AccountKey } from '../identifiers.ts';
import type { FieldOf, FieldValues } from './account-fields.ts';
import type { User } from '../user.ts';

/** An account, as operators and services see it: without e-mail address and password. */
export interface Account extends User {
  /** The id that another system gave the user. */
  externalId: string | null;
  /** The language of its mails (BCP 47); null if none is known. */
  locale: string | null;
  /** False after a mailer has reported that the address cannot be reached. */
  emailDeliverable: boolean;
}

/** An account's address, as its owner gave it. */
export interface Address {
  email: string;
  verified: boolean;
  /** What takes its place once it is proved; null for none. */
  pending: string | null;
  /** False after a mailer has reported that it cannot deliver to it. */
  deliverable: boolean;
}

/** What is absent stays. */
export type AccountChanges = Partial<Pick<FieldValues, FieldOf<'change'>>>;

type NeededField = 'username' | 'name' | 'email';

/** What a service or a seed says of a new account. */
export type AccountRequest = Pick<FieldValues, NeededField> &
  Partial<Pick<FieldValues, Exclude<FieldOf<'create'> | FieldOf<'seed'>, NeededField>>>;

export type NewAccount = Omit<AccountRequest, 'password' | 'totpSecret'> & {
  passwordHash: Uint8Array;
  roles: string[];
  /** The account has an authenticator app from the start, whose secret this encrypts for it. */
  sealTotp?: (userId: number) => { keyId: string; secret: Uint8Array };
};

/** What a change did to an account. */
export interface ChangedAccount {
  account: Account;
  /** Whether this call changed anything. */
  isChanged: boolean;
  /** The account's status, if this call changed it. */
  status: UserStatus | null;
  /** Tokens that this call has ended. */
  ended: TokenRecord[];
  /** No token of the user up to this id is good any more, those of `ended` included; 0 if one may be. */
  before: number;
}

/** For how long the names of a deleted account, and an address that one has left, stay reserved, and their keyed hashes. */
export interface Reservation {
  /** Milliseconds. */
  grace: number;
  /** By the newest secret. */
  hashes: (names: { username?: string; email: string }) => string[];
}

/** What is left out does not count. */
export interface AccountFilter {
  /** A role that the account has. */
  role?: string;
  disabled?: boolean;
}

/**
 * The accounts, for operators and registered services. A deleted account is not among them. Every method fails with
 * AuthError('unavailable') when the database is away, and each that takes a lock also with `rate_limited` as
 * `Lanes.run`.
 */
export interface AccountStore {
  /** null if there is none. */
  find(key: AccountKey): Promise<Account | null>;

  /** Its address; null if there is none. */
  address(id: number): Promise<Address | null>;

  /** Accounts with ids above `after`, in their order, of those that the filter takes. */
  page(after: number, limit: number, filter?: AccountFilter): Promise<Account[]>;

  /**
   * Adds an account without a session. One that is invited wants the mail in the same commit.
   * @param isAnnounced whether the replicas tell the feed of it. False for a caller that does so.
   * @throws AuthError `username_taken` (also by a lookalike), `email_taken`, `external_id_taken`
   */
  add(account: NewAccount, isAnnounced?: boolean): Promise<Account>;

  /**
   * Changes an account in one commit. Disabling ends all its tokens with the reason `admin`, in the same commit; that
   * and a new e-mail address void its reset token. A new e-mail address is not verified, unless the change says so. To
   * mark the present one as verified, the change names it, code point by code point. A verified address that is left is
   * reserved for the account, and naming any withdraws a pending one.
   * @param at milliseconds since 1970.
   * @returns null if there is none.
   * @throws AuthError `username_taken` (also by a lookalike), `email_taken`, `external_id_taken`, `validation_failed`
   */
  change(key: AccountKey, changes: AccountChanges, at: number): Promise<ChangedAccount | null>;

  /**
   * Deletes an account in one commit: ends all its tokens with the reason `admin`, erases its names, e-mail address,
   * external id, language, hash, roles and known devices, and reserves its names. The rows of its tokens stay until they are purged, so that
   * every replica learns what has ended.
   * @param at milliseconds since 1970.
   * @returns null if there is none.
   */
  delete(key: AccountKey, at: number, reservation: Reservation): Promise<ChangedAccount | null>;

  /** What the fast store has not confirmed: how many revocations of the account's tokens, and changes of its row. */
  pending(userId: number): Promise<{ revocations: number; changes: number }>;
}

/** What ends all tokens of an account, without a caller who holds one. */
export function endsAll(at: number): Ending {
  // Also sessions that have expired by their record, which may be behind.
  return { at, reason: 'admin', usedSince: -1, caller: null, keepsCaller: false };
}
