import type { TokenKey } from '../sessions/ports.ts';

/** Every token of the user whose id is at most `before` is revoked. */
export interface UserMark {
  userId: number;
  before: number;
}

/** What readers of the feed are told; `seq` counts from 1 on within an epoch, without a gap. */
export type FeedEvent = { seq: number } & (
  { type: 'revoked'; tokenId: number; userId: number } | ({ type: 'user_revoked' } & UserMark)
);

/**
 * Where a reader is: it has been told everything up to `seq`. Positions of two epochs have nothing to do with one
 * another: between them something may have been lost.
 */
export interface FeedPosition {
  epoch: string;
  seq: number;
}

export interface FeedPage {
  epoch: string;
  /** What was published last; 0 where nothing was. */
  last: number;
  /** What follows the position asked from, in order; null where part of that is not kept any more. */
  events: FeedEvent[] | null;
}

/**
 * The stream of revocations that all replicas share: bounded, and no record. Whatever makes it doubtful that everything is
 * on it (it was emptied, restarted or failed over, or nobody looked after it for a while) begins a new epoch. Every method
 * fails with AuthError('unavailable') when the store is away.
 * Two implementations, one contract suite: `infra/redis` and `infra/memory`.
 */
export interface RevocationFeed {
  /**
   * Adds revocations that are on record; one that was added a moment ago is not added again. Works before a new
   * connection has been given what it may have forgotten, as the setting of many tombstones does.
   */
  publish(keys: readonly TokenKey[]): Promise<void>;

  /** Adds thefts that the record does not know yet. Once it does they are published again: snapshots come from it. */
  publishUnrecorded(keys: readonly TokenKey[]): Promise<void>;

  /** Adds one event for many tokens of a user. @param keys those that it stands for: they need no event of their own. */
  publishUser(mark: UserMark, keys: readonly TokenKey[]): Promise<void>;

  /**
   * Says that everything that was revoked from so many until so many milliseconds ago has been published once more.
   * Where nobody had said so of the time before, something may be missing for good, and a new epoch begins.
   */
  renewed(from: number, to: number): Promise<void>;

  /** What follows `seq`, at most `limit` events. */
  read(seq: number, limit: number): Promise<FeedPage>;
}

/** What the record says is revoked. */
export interface RevokedTokens {
  /**
   * The ids of tokens whose revocation was finished within the last so many seconds, or is not yet, ascending.
   * @throws AuthError `unavailable`
   */
  within(seconds: number): Promise<number[]>;
}
