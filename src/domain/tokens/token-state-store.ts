import type { TokenKey } from '../principal.ts';
import type { User } from '../user.ts';
import type { TokenRecord } from './token-record.ts';
import type { Presentation, RotationOutcome, SessionState } from './session-state.ts';
import type { RevocationFeed } from '../feed/ports.ts';

/** Part of every answer about a token that the store knows. */
export interface Known {
  user: User;
  /** When the session or LLT was created, in milliseconds since 1970. */
  createdAt: number;
}

/** Seconds. Longer than a put may be late (put.lua). */
export const NOTE_TTL = 120;

/**
 * The kind of a tombstone. The step that finds a theft sets `reused`, which stays until the record is written and
 * `revoke` follows. If the replica that was to write the record never got its answer, the next one learns of it.
 */
export type Tombstone = 'revoked' | 'reused';

/** The store does not know the token, or refuses it outright. `now` is the store's clock, in microseconds. */
export type Unusable = { outcome: 'missing'; now: number } | { outcome: Tombstone } | { outcome: 'disabled' };

/** A good access token or LLT. */
export interface Accepted extends Known {
  outcome: 'good';
  /** The session's state, if this use has confirmed its pair. */
  confirmed?: SessionState;
  /** Milliseconds since 1970, if this use of an LLT was recorded. */
  usedAt?: number;
}

/** An access token of an earlier pair. */
export interface Superseded extends Known {
  outcome: 'superseded';
}

/**
 * The fast store of tokens in use: their states, tombstones and users. Every method is one atomic step and one round
 * trip. If the store is down, it fails with AuthError('unavailable').
 * Two implementations, one contract suite: `infra/redis` and `infra/memory`.
 */
export interface TokenStateStore {
  /** The store's clock, in microseconds: generations are taken from it. */
  now(): Promise<number>;

  /**
   * Presents a refresh token (see rotation.ts). A reused one leaves a `reused` tombstone in the same step, and only
   * that step's answer names the user.
   */
  rotate(
    key: TokenKey,
    presented: Omit<Presentation, 'now'>,
  ): Promise<Unusable | (RotationOutcome & Known & { now: number })>;

  /** Presents an access token; its first use confirms the pair. */
  checkAccess(key: TokenKey, generation: number): Promise<Unusable | Accepted | Superseded>;

  /** Presents a long-lived token; records its use, to the minute. */
  checkLongLived(key: TokenKey): Promise<Unusable | Accepted>;

  /**
   * Call it, read the record, then put. If the store is emptied in between, it refuses the put. An answer `missing`
   * prepares a put in the same way.
   * @returns the store's clock, in microseconds: `asOf` of the put.
   */
  preparePut(userId: number): Promise<number>;

  /**
   * Puts the state and user of a token that is new, or whose key was missing. It is refused if a state or tombstone
   * exists already, if its source is older than 10 seconds, and if the store may have lost something of the user since.
   * A user with a smaller version than the store knows is left out.
   * @param user null leaves the user as the store knows it.
   * @param asOf the store's clock before the record was read, in microseconds: of `preparePut`, or of `missing`.
   * @returns whether the state was accepted.
   */
  put(record: TokenRecord, user: User | null, asOf: number): Promise<boolean>;

  /**
   * Replaces what the store knows of the user, unless that has a greater version. Once this resolves, every replica
   * answers with the new names and roles, or reads them from the record first.
   */
  putUser(user: User): Promise<void>;

  /**
   * Sets many users. Like `revokeAll`, it works before the revocations are replayed to a new connection.
   */
  putUsers(users: readonly User[]): Promise<void>;

  /** Sets tombstones, replacing any states. Once this resolves, every replica refuses the tokens. */
  revoke(...keys: TokenKey[]): Promise<void>;

  /**
   * Sets a tombstone for `NOTE_TTL` seconds, for a token that the record shows as ended: it saves look-ups. It stays
   * short, because a client may present all its ended tokens. A tombstone that is there stays as it is.
   */
  noteEnded(key: TokenKey): Promise<void>;

  /**
   * Sets many tombstones. Only this method works before the revocations are replayed to a new connection.
   * @param tombstone `reused` for thefts that are not on record yet.
   */
  revokeAll(keys: readonly TokenKey[], tombstone?: Tombstone): Promise<void>;

  /** When each of the user's tokens was last used, in milliseconds since 1970; those not in the store are left out. */
  lastUses(userId: number, tokenIds: readonly number[]): Promise<Map<number, number>>;
}

/**
 * Wraps a store so that it publishes every tombstone after setting it: code that ends a token cannot forget the feed. A
 * revocation is settled only after that (see revoke.ts), so a sweep finds those that were not published.
 */
export function withPublishing(
  tokenStates: TokenStateStore,
  feed: Pick<RevocationFeed, 'publish' | 'publishUnrecorded'>,
): TokenStateStore {
  return {
    ...tokenStates,
    // Publish last: a token issued after its end was published could outlive a reader's memory of that end.
    async revoke(...keys) {
      await tokenStates.revoke(...keys);
      await feed.publish(keys);
    },
    async revokeAll(keys, tombstone) {
      await tokenStates.revokeAll(keys, tombstone);
      await (tombstone === 'reused' ? feed.publishUnrecorded(keys) : feed.publish(keys));
    },
  };
}
