import type { TokenKey } from '../principal.ts';
import type { User } from '../user.ts';

/** Every token of the user whose id is at most `before` is revoked. */
export interface UserMark {
  userId: number;
  before: number;
}

/** An event of the feed; `seq` counts from 1 within an epoch, without gaps. */
export type FeedEvent = { seq: number } & (
  | { type: 'revoked'; tokenId: number; userId: number }
  | ({ type: 'user_revoked' } & UserMark)
  | { type: UserEventType; userId: number; version: number }
);

/** What has become of an account. */
export type UserStatus = 'created' | 'disabled' | 'enabled' | 'deleted';

/**
 * `user_changed`: the user has changed up to this version, and perhaps further, so a reader asks for its present state.
 * The others: so it was as of this version. Events may come late or twice, and the greatest version counts.
 */
export type UserEventType = 'user_changed' | `user_${UserStatus}`;

/** A change that is on record. */
export interface UserChange {
  user: Pick<User, 'id' | 'version'>;
  /** null if it has not changed. */
  status: UserStatus | null;
}

/** The events that tell of a change, in order. Readers that only ask for the present state need `user_changed`. */
export function eventTypesOf(status: UserStatus | null): UserEventType[] {
  if (status === 'created') return ['user_created'];
  return status === null ? ['user_changed'] : ['user_changed', `user_${status}`];
}

/**
 * A reader's position: it has received everything up to `seq`. Positions of two epochs cannot be compared: events may
 * have been lost between the epochs.
 */
export interface FeedPosition {
  epoch: string;
  seq: number;
}

export interface FeedPage {
  epoch: string;
  /** The number of the last event published; 0 if there is none. */
  last: number;
  /** The events after the requested position, in order; null if some of them are no longer kept. */
  events: FeedEvent[] | null;
}

/**
 * The stream of revocations and changed users that all replicas share. It is bounded, and the records stay
 * authoritative. A new epoch begins whenever events may be missing: the stream was emptied, restarted or failed over,
 * or no replica renewed it for a while. If the store is down, every method fails with AuthError('unavailable'). Two
 * implementations, one contract suite: `infra/redis` and `infra/memory`.
 */
export interface RevocationFeed {
  /**
   * Adds revocations that are on record, except those that were added a moment ago. Like `revokeAll`, it works before
   * the revocations are replayed to a new connection.
   */
  publish(keys: readonly TokenKey[]): Promise<void>;

  /**
   * Adds thefts that are not on record yet. Once on record they are published again, since snapshots read the records.
   */
  publishUnrecorded(keys: readonly TokenKey[]): Promise<void>;

  /** Adds one event for many tokens of a user. @param keys the tokens it covers: they get no event of their own. */
  publishUser(mark: UserMark, keys: readonly TokenKey[]): Promise<void>;

  /** Adds changes of users that are on record, except those that were added a moment ago. */
  publishChanges(changes: readonly UserChange[]): Promise<void>;

  /**
   * Reports that everything of the time between `from` and `to` milliseconds ago was published once more. If the time
   * before was not reported, events may be missing for good, and a new epoch begins.
   * @param mark what `askedRenewal` said before the renewal read the record; null to serve nobody.
   */
  renewed(from: number, to: number, mark: RenewalMark | null): Promise<void>;

  /** The events after `seq`, at most `limit`. */
  read(seq: number, limit: number): Promise<FeedPage>;

  /**
   * The end of the feed, once everything that was on record at the call has been published to it: a full renewal that
   * began after the call has ended (fence.ts). It asks for one, so that this takes a second or two. It works before the
   * revocations are replayed, and also for a command.
   * @returns null if `signal` aborts before. @throws AuthError `unavailable`, if the store was away then
   */
  fence(signal: AbortSignal): Promise<FeedPosition | null>;

  /** The end of the feed, under the same conditions. */
  end(): Promise<FeedPosition>;

  /** What fences that no renewal has served ask for, of whoever holds the lease; null for none. */
  askedRenewal(): Promise<RenewalMark | null>;
}

/** Who asks for a full renewal gets the next number of the epoch. */
export interface RenewalMark {
  epoch: string;
  asked: number;
}

/** A user's status as of a version. */
export interface UserStatusAt {
  userId: number;
  status: UserStatus;
  version: number;
}

/** What snapshots hold, on record. */
export interface FeedRecord {
  /** Of the last `seconds` seconds; ascending by id. @throws AuthError `unavailable` */
  within(seconds: number): Promise<{
    /** The ids of tokens whose revocation was finished in this time, or is still pending. */
    tokens: number[];
    /** The users who were disabled, enabled or deleted in this time. */
    statuses: UserStatusAt[];
  }>;
}
