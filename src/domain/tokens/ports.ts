import type { UserMark } from '../feed/ports.ts';
import type { User } from '../users/user.ts';
import type { TokenKey } from '../sessions/ports.ts';
import type { SessionState } from '../sessions/rotation.ts';
import type { EndedPosition, EndedToken, EndReason } from './ended-token.ts';
import type { Lifetimes, TokenRecord } from './token-record.ts';

export interface NewSession {
  /** The device. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  state: SessionState;
}

export interface Ending {
  /** Milliseconds since 1970. */
  at: number;
  reason: EndReason;
  usedSince: number;
  /** The id of a session that stays. */
  keep?: number | undefined;
}

/** The durable token records. Every method fails with AuthError('unavailable') when the database is away. */
export interface TokenStore {
  /**
   * Adds a session under a lock on the user's row, in one transaction with the revocation of whatever has to make
   * room for it: of more than `limit` sessions used since `liveSince` (µs), and where they have a greatest age created
   * since `createdSince` (ms), those unused for longest go.
   * @returns null when the user has gone or was disabled meanwhile.
   */
  addSession(
    userId: number,
    session: NewSession,
    room: { limit: number; liveSince: number; createdSince?: number },
  ): Promise<{ id: number; replaced: number[] } | null>;

  /**
   * Adds a long-lived token, under the same lock.
   * @returns null when the user already has `limit` of them.
   * @throws AuthError `invalid_token` when the user has gone or was disabled meanwhile
   */
  addLongLived(
    userId: number,
    token: { name: string; createdAt: number; kid: string },
    limit: number,
  ): Promise<number | null>;

  /** The record with its owner, revoked or not; null when there is none. */
  find(id: number): Promise<{ record: TokenRecord; user: User } | null>;

  /**
   * Marks a record of this user as revoked, and as pending until its tombstone stands; one that is already stays as it
   * was.
   * @param type only a record of this type.
   * @param reason `logout` where nothing else is said.
   * @returns false when this user has no such record.
   */
  revoke(
    userId: number,
    id: number,
    at: number,
    type?: TokenRecord['type'],
    reason?: EndReason,
  ): Promise<boolean>;

  /**
   * Revokes every LLT of the user and every session used since `usedSince` (µs), under the lock under which they are
   * added and in one transaction: what is added at the same time is ended with the rest, or comes after it.
   * @throws AuthError `invalid_token` where the session that is to be kept has ended meanwhile: it may end no other
   */
  revokeAll(
    userId: number,
    ending: Ending,
  ): Promise<{
    /** What this has ended. */
    ended: TokenRecord[];
    /** The greatest id that the user's tokens had then: none up to it is good any more. null where one was kept. */
    before: number | null;
  }>;

  /**
   * The records of the user that are not revoked, oldest first.
   * @param usedSince (µs) leaves out sessions that were not used since.
   */
  list(userId: number, usedSince?: number): Promise<TokenRecord[]>;

  /**
   * What has ended since `since` (ms): revoked, or expired by `now` as far as the record knows. The newest first.
   * @param range.before only what comes after this one in that order.
   */
  listEnded(
    userId: number,
    range: { since: number; now: number; limit: number; before?: EndedPosition | undefined },
    lifetimes: Lifetimes,
  ): Promise<EndedToken[]>;
}

/** Rotations and uses that reach the records later than they happen. */
export interface StateWriter {
  /**
   * Moves records on to these states, never back. In one transaction; locks in the order given.
   * @returns those that are revoked or gone.
   */
  saveStates(states: readonly (TokenKey & { state: SessionState })[]): Promise<TokenKey[]>;

  /** Moves the last use of LLTs on, never back. Times in milliseconds since 1970. */
  saveUses(uses: readonly { tokenId: number; at: number }[]): Promise<void>;
}

export interface Settled {
  key: TokenKey;
  /** Milliseconds since 1970. */
  at: number;
}

/** The outbox of revocations: a record is revoked and marked as pending in one commit; the mark goes with its tombstone. */
export interface RevocationStore {
  /** Tokens whose tombstone is not known to stand; of one user, or of all. */
  pending(limit: number, userId?: number): Promise<TokenKey[]>;

  /** Of these users those that are disabled, and so have no token that is good, with the newest token of each. */
  marksOf(userIds: readonly number[]): Promise<UserMark[]>;

  /** Notes that the tombstones have just been set, and takes the marks off. */
  settle(tokenIds: readonly number[]): Promise<void>;

  /**
   * What was settled in the last so many milliseconds or after a moment (ms since 1970) and id, by the record's own
   * clock, oldest first.
   */
  settledSince(from: { ago: number } | { at: number; id: number }, limit: number): Promise<Settled[]>;
}
