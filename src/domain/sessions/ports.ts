import type { User } from '../users/user.ts';
import type { TokenRecord } from '../tokens/token-record.ts';
import type { Presentation, RotationOutcome, SessionState } from './rotation.ts';

export interface TokenKey {
  userId: number;
  tokenId: number;
}

/** What every answer about a token that the store knows comes with. */
export interface Known {
  user: User;
  /** When the session or LLT was created, in milliseconds since 1970. */
  createdAt: number;
}

/**
 * What a tombstone says. `reused` is set by the step that finds a theft, and stands until `revoke` follows the record:
 * the replica that was to tell the record may never have got its answer, so whoever comes next is told too.
 */
export type Tombstone = 'revoked' | 'reused';

/** What the store says of a token that it cannot judge or need not. `now` is its clock, in microseconds. */
export type Unusable = { outcome: 'missing'; now: number } | { outcome: Tombstone } | { outcome: 'disabled' };

/** A good access token or LLT. */
export interface Accepted extends Known {
  outcome: 'good';
  /** The session's state, where this use has confirmed its pair. */
  confirmed?: SessionState;
  /** Milliseconds since 1970, where this use of an LLT was noted. */
  usedAt?: number;
}

/**
 * The fast truth of the tokens in use: state, tombstones, and beside them the users they belong to. Every method is one
 * atomic step and one round trip, and fails with AuthError('unavailable') when the store is away.
 * Two implementations, one contract suite: `infra/redis` and `infra/memory`.
 */
export interface SessionStateStore {
  /** The store's clock, in microseconds: the one from which generations are made. */
  now(): Promise<number>;

  /** Presents a refresh token (see rotation.ts). A reused one leaves a `reused` tombstone in the same step. */
  rotate(
    key: TokenKey,
    presented: Omit<Presentation, 'now'>,
  ): Promise<Unusable | (RotationOutcome & Known & { now: number })>;

  /** Presents an access token; its first use confirms the pair. */
  checkAccess(
    key: TokenKey,
    generation: number,
  ): Promise<Unusable | Accepted | ({ outcome: 'superseded' } & Known)>;

  /** Presents a long-lived token; notes its use, to the minute. */
  checkLongLived(key: TokenKey): Promise<Unusable | Accepted>;

  /**
   * Puts the state of a new token, or of one whose key was missing, and its user. Refused where a state or tombstone
   * stands already, or when what it was made from is older than 10 seconds.
   * @param asOf the store's clock before the record was read or written, in microseconds.
   * @returns whether the token's state was taken.
   */
  put(record: TokenRecord, user: User, asOf: number): Promise<boolean>;

  /** Sets a tombstone in place of whatever stands there: from the moment this resolves the token is refused by every replica. */
  revoke(key: TokenKey): Promise<void>;

  /**
   * Sets many. The one method that works before a new connection has been given what it may have forgotten.
   * @param tombstone `reused` for thefts that the record does not know yet.
   */
  revokeAll(keys: readonly TokenKey[], tombstone?: Tombstone): Promise<void>;

  /** When each of the user's tokens was last used, in milliseconds since 1970; those not in the store are left out. */
  lastUses(userId: number, tokenIds: readonly number[]): Promise<Map<number, number>>;
}
