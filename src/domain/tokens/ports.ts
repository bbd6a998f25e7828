import type { AuthError } from '../errors.ts';
import type { LaneTurn } from '../limits/lanes.ts';
import type { CallerKey, TokenKey } from '../principal.ts';
import type { UserChange, UserMark } from '../feed/ports.ts';
import type { User } from '../user.ts';
import type { SessionState } from './session-state.ts';
import type { Lease } from './lease.ts';
import type { EndedPosition, EndedToken, EndReason } from './ended-token.ts';
import type { TokenLimits, TokenRecord } from './token-record.ts';
import type { Lifetimes } from './claims.ts';

export interface NewSession {
  /** The device. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  state: SessionState;
}

export interface NewLongLived {
  /** The device. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** The key that will sign it. */
  kid: string;
  /** Milliseconds since 1970; null for never. */
  expiresAt?: number | null;
  /** Makes it a limited token. */
  limited?: TokenLimits | null;
  /** The caller's session, how it was opened, and the generation of its access token; null without one. */
  createdBy: { sessionId: number; withFactor: boolean; generation: number } | null;
}

/** The long-lived tokens that end with a stolen session. */
export interface StolenLongLived {
  /** Tokens that this call has ended. */
  ended: number[];
  /** Tokens that an earlier call has ended, and whose tombstones are not confirmed. */
  pending: number[];
}

export interface Ending {
  /** Milliseconds since 1970. */
  at: number;
  reason: EndReason;
  usedSince: number;
  /** The caller's session; null without one. */
  caller: Omit<CallerKey, 'userId'> | null;
  /** Whether the caller's session is kept. */
  keepsCaller: boolean;
  /** Whether long-lived tokens are kept. */
  keepsLongLived?: boolean;
}

/**
 * `now`: this call ended the token. Otherwise it had ended, and this call changed nothing: `unfinished` if its tombstone
 * is not confirmed yet, else `finished`.
 */
export type Revoked = 'now' | 'unfinished' | 'finished';

/** A token to end. */
export interface Revocation {
  key: TokenKey;
  /** The token of the same user that ends it, which must be good; null if it needs none. */
  caller: number | null;
  /** Only a record of this type. */
  type: TokenRecord['type'] | undefined;
}

/**
 * What a session uses up in the transaction that inserts it, so that it opens no other: a later step of a TOTP than the
 * last one, a recovery code, or the challenge that a passkey has signed.
 */
export type FactorProof =
  | { type: 'totp'; factorId: number; step: number }
  | { type: 'recovery_code'; codeHash: Uint8Array }
  | { type: 'passkey'; factorId: number; challenge: Uint8Array; shown: AuthenticatorState };

/** What the authenticator of a passkey says of it with each signature. */
export interface AuthenticatorState {
  /** How often it has signed; 0 if it does not count. */
  counter: number;
  /** Whether it may be copied to other devices. */
  backupEligible: boolean;
  /** Whether it has been copied. */
  backedUp: boolean;
}

/** What must hold under the lock for a session to be opened. */
export interface SessionConditions {
  /** The least recently used sessions beyond this number end. */
  limit: number;
  /** Only sessions used since then count (µs). */
  liveSince: number;
  /** Only sessions opened since then count (ms); 0 for all. */
  createdSince: number;
  /** Of the password that opens it. */
  passwordVersion: number;
  /** When the account was last enabled again as that password was checked (ms); 0 for never. */
  enabledAt: number;
  /** Which an account with a second factor needs; null if the password alone was checked. */
  proof: FactorProof | null;
  /** Whether the device is new to an account with these known callers, which a notice tells of. */
  isNewTo: (knownCallers: readonly string[]) => boolean;
}

/**
 * The durable token records. Every method fails with AuthError('unavailable') when the database is away, and each that
 * takes a lock takes its turn in the lane of the user (limits/lanes.ts), and may fail with its `rate_limited`.
 */
export interface TokenStore {
  /**
   * Adds a session under a lock on the user's row. The same transaction revokes the least recently used sessions beyond
   * the limit, uses up the proof, and makes the caller's device known to the account.
   * @returns the user as read under the lock; null if it was deleted or disabled meanwhile.
   * @throws AuthError `invalid_credentials` if the password was changed, or the account disabled and enabled, meanwhile;
   * `second_factor_required` if the account has a factor and there is no proof; `invalid_second_factor` if the proof is
   * used up, or its factor is gone; `invalid_passkey` for that of a passkey
   */
  addSession(
    userId: number,
    session: NewSession,
    conditions: SessionConditions,
  ): Promise<{ id: number; replaced: number[]; user: User } | null>;

  /**
   * Adds a long-lived token, under the same lock and a lock on the caller's session.
   * @returns null if the user already has `limit` of them that have not expired.
   * @throws AuthError `invalid_token` if that session has ended, or the user was deleted or disabled meanwhile;
   * `login_too_old` if the user has a second factor, and that session was opened without one
   */
  addLongLived(userId: number, token: NewLongLived, limit: number): Promise<number | null>;

  /** The record with its owner, revoked or not; null if there is none. */
  find(id: number): Promise<{ record: TokenRecord; user: User } | null>;

  /**
   * Marks a record of this user as revoked, and as pending until its tombstone is set. A record that is revoked already
   * does not change.
   * @param type only a record of this type.
   * @param reason `logout` by default. Theft has its own method.
   * @param turn that of the token by default.
   * @returns null if this user has no such record.
   */
  revoke(
    userId: number,
    id: number,
    at: number,
    type?: TokenRecord['type'],
    reason?: Exclude<EndReason, 'reuse'>,
    turn?: LaneTurn,
  ): Promise<Revoked | null>;

  /**
   * As `revoke`, under the locks of user, caller and target.
   * @param caller the token that the caller presents.
   * @throws AuthError `invalid_token` if the caller's token has ended, or the user was deleted or disabled meanwhile
   */
  revokeByCaller(
    caller: TokenKey,
    id: number,
    at: number,
    type?: TokenRecord['type'],
  ): Promise<Revoked | null>;

  /**
   * As `revoke` and `revokeByCaller` with the reason `logout`, for many tokens in one commit. It waits for no lock.
   * @returns for each what became of it: as `revoke` returns, or the error that `revokeByCaller` throws. Nothing was
   * changed for one that is `locked`, because another transaction holds its row, its caller's or its user's.
   */
  revokeMany(
    revocations: readonly Revocation[],
    at: number,
  ): Promise<(Revoked | null | 'locked' | AuthError)[]>;

  /**
   * Revokes a session whose superseded refresh token was reused and, in the same transaction, the LLTs that it created
   * since then, all with the reason `reuse`. It holds the lock under which LLTs are added. A repeat is safe.
   * @param since the generation of the reused refresh token. If it is not known, all LLTs that the session created are
   * ended, unless the theft is on record already: the replica that recorded it knew the generation.
   * @returns null if this user has no such session.
   */
  revokeForReuse(
    userId: number,
    sessionId: number,
    at: number,
    since: number | undefined,
  ): Promise<StolenLongLived | null>;

  /**
   * Revokes every LLT of the user (unless they are kept) and every session used since `usedSince` (µs), in one
   * transaction and under the lock under which they are added. A token that is added concurrently is ended too, or is
   * added afterwards.
   * @throws AuthError `invalid_token` if the caller's session has ended, or the user was deleted or disabled meanwhile;
   * `login_too_old` as `CallerKey` says
   */
  revokeAll(
    userId: number,
    ending: Ending,
  ): Promise<{
    /** Tokens that this call has ended. */
    ended: TokenRecord[];
    /** The user's greatest token id: no token up to it is good any more. null if tokens were kept. */
    before: number | null;
  }>;

  /**
   * The records of the user that are not revoked, oldest first. Long-lived tokens that have expired may be missing.
   * @param usedSince (µs) leaves out sessions not used since then.
   */
  list(userId: number, usedSince?: number): Promise<TokenRecord[]>;

  /** The same with the account's locale, which the fast store does not hold, for as many calls of the database. */
  listWithLocale(
    userId: number,
    usedSince?: number,
  ): Promise<{ records: TokenRecord[]; locale: string | null }>;

  /**
   * Tokens that ended since `since` (ms), by their records: revoked, or expired by `now`. The newest first.
   * @param range.before only entries after this one in that order.
   */
  listEnded(
    userId: number,
    range: { since: number; now: number; limit: number; before?: EndedPosition | undefined },
    lifetimes: Lifetimes,
  ): Promise<EndedToken[]>;
}

/** Writes rotations and uses to the records, some time after they happened. */
export interface StateWriter {
  /**
   * Updates records to these states, but never to an older one. In one transaction; locks in the given order.
   * @returns those that are revoked or gone.
   */
  saveStates(states: readonly (TokenKey & { state: SessionState })[]): Promise<TokenKey[]>;

  /** Updates the last use of LLTs, but never to an earlier time. Times in milliseconds since 1970. */
  saveUses(uses: readonly { tokenId: number; at: number }[]): Promise<void>;

  /**
   * Updates the last use of LLTs that have not ended, and only if it is a minute older. Any other id changes
   * nothing and locks nothing, because a service names them.
   */
  saveReportedUses(uses: readonly { tokenId: number; at: number }[]): Promise<void>;
}

/** In the order of time and id. */
export interface SettledPage {
  keys: TokenKey[];
  /** When the last of them was settled, in milliseconds since 1970. */
  last: number;
}

/** The outbox of revocations: one commit revokes a record and marks it pending. Its tombstone clears the mark. */
export interface RevocationStore {
  /**
   * Tokens whose tombstone is not confirmed, in the order of ids; of one user, or of all.
   * @param after only greater ids. The next page begins there, because `settle` may have left some of this one.
   */
  pending(limit: number, userId?: number, after?: number): Promise<TokenKey[]>;

  /** Those of the users who are disabled, and so have no good token, each with the user's newest token. */
  marksOf(userIds: readonly number[]): Promise<UserMark[]>;

  /**
   * Records that the tombstones have just been set, and clears the marks. It waits for no lock: the mark of a row that
   * another transaction holds stays, and the sweep clears it.
   */
  settle(tokenIds: readonly number[]): Promise<void>;

  /**
   * Revocations settled in the last `ago` milliseconds, or after the time `at` (ms since 1970) and `id`, by the
   * database's clock; oldest first.
   */
  settledSince(from: { ago: number } | { at: number; id: number }, limit: number): Promise<SettledPage>;
}

/** The leases of those who renew tombstones: one on each master of the fast store (lease.ts). */
export interface RenewalLeases {
  /** Names of the masters. */
  masters(): string[];
  /** Whether the keys of this user are there. */
  isThere(master: string, userId: number): boolean;
  /** Whether the feed is there. */
  hasFeed(master: string): boolean;
  /**
   * @param self the replica that asks.
   * @throws AuthError `unavailable`, also if the store is not known to be this installation's
   */
  look(master: string, self: string): Promise<HeldLease>;
  /**
   * Sets the lease, unless somebody has moved it since it was read. A full store does that too.
   * @returns what stands there now.
   * @throws AuthError `unavailable`, as `look`
   */
  move(master: string, from: Lease | null, to: Lease): Promise<Lease | null>;
}

export interface HeldLease {
  /** null if there is none. */
  lease: Lease | null;
  /** The name of the server that answers, another one after a restart or failover; only for the holder. */
  server: string;
}

export interface ChangedUser extends UserChange {
  user: User;
  /** Whether no replica has noted yet that the fast store has this change. */
  isPending: boolean;
}

/** The users whose change the fast store and the feed may lack. */
export interface ChangedUsers {
  /**
   * The users of whom something that services see changed in the last `ago` milliseconds, by the database's clock, oldest
   * first; each with its status if that changed.
   * @param after the `next` of the page before.
   */
  changedSince(ago: number, limit: number, after?: ChangePosition): Promise<ChangePage>;

  /**
   * The users with a pending change of any age, in the order of ids, each with its status: the commit of a change may
   * come long after its time.
   * @param after only greater ids. The next page begins there, because `settleChanges` may have left some of this one.
   */
  pendingChanges(limit: number, after?: number): Promise<ChangedUser[]>;

  /**
   * Notes that the fast store has these versions: commands wait for that. It waits for no lock: a user whom another
   * transaction holds is noted by the next renewal.
   */
  settleChanges(users: readonly User[]): Promise<void>;
}

/** The time of a change, in milliseconds since 1970, and the user's id. */
export interface ChangePosition {
  at: number;
  id: number;
}

export interface ChangePage {
  changes: ChangedUser[];
  /** Where the next page begins; null after the last one. */
  next: ChangePosition | null;
}
