import { elapsedSince, momentOf, type Moment, type VerifierClock } from './clock.ts';
import type { FeedMessage, UserMark } from './feed-message.ts';
import type { UserToken } from './verified-token.ts';

/** The revocations from the feed that still matter. */
export interface Revocations {
  /** Call this for every new connection: an incomplete snapshot is discarded and starts again. */
  connected(): void;
  learn(message: FeedMessage): void;
  /** Whether the token is known to be revoked. */
  includes(token: Pick<UserToken, 'sid' | 'userId'>): boolean;
  /** Seconds since we knew all published revocations; Infinity before the first complete snapshot. */
  staleness(): number;
  /** Whether a heartbeat proves now that nothing is missing. */
  isComplete(): boolean;
  /**
   * Seconds, by this machine's clock. The revocation of an access token that is older may have been dropped, or be
   * missing from the snapshot, which looks back a minute further than the lifetime of access tokens.
   */
  coveredAge(): number;
  /** Number of revocations in memory. */
  size(): number;
}

/** The revocations that arrived within one sixteenth of the time for which they are kept. */
interface Bucket {
  /** Milliseconds of the monotonic clock. */
  closes: number;
  until: number;
  /** Seconds. */
  kept: number;
  tokens: Set<number>;
  /** User id → every token up to this id. */
  users: Map<number, number>;
}

const BUCKETS = 16;

/**
 * Memory depends only on the number of revocations within the lifetime of an access token: a whole bucket is dropped
 * when all its access tokens must have expired.
 * @param clockTolerance seconds for which expired tokens are still accepted. It counts twice for how long a revocation
 * is kept, because this machine's clock may be behind by as much.
 */
export function makeRevocations(clock: VerifierClock, clockTolerance: number): Revocations {
  const buckets: Bucket[] = [];
  let kept = 0;
  let coveredAge = 0;
  let known: Moment | null = null;
  let began: Moment | null = null;

  const isComplete = () => known !== null && began === null;

  function forget(): void {
    const now = clock.monotonic();
    while (buckets[0] && buckets[0].until <= now) buckets.shift();
  }

  function newest(): Bucket {
    const now = clock.monotonic();
    const last = buckets.at(-1);
    if (last?.kept === kept && now < last.closes) return last;
    const closes = now + (kept * 1000) / BUCKETS;
    const until = closes + kept * 1000;
    const bucket: Bucket = { closes, until, kept, tokens: new Set(), users: new Map() };
    buckets.push(bucket);
    return bucket;
  }

  // A repeated revocation moves to the newest bucket, so that none is kept twice.
  function addToken(token: number): void {
    const bucket = newest();
    for (const { tokens } of buckets) tokens.delete(token);
    bucket.tokens.add(token);
  }

  function addUser({ user, before }: UserMark): void {
    const bucket = newest();
    const upTo = Math.max(before, ...buckets.map(({ users }) => users.get(user) ?? 0));
    for (const { users } of buckets) users.delete(user);
    bucket.users.set(user, upTo);
  }

  /** A snapshot is as old as its first part, and incomplete until its last part. */
  function addSnapshot(snapshot: FeedMessage & { type: 'snapshot' }): void {
    began ??= momentOf(clock);
    coveredAge = snapshot.remember + clockTolerance;
    kept = coveredAge + clockTolerance;
    for (const token of snapshot.tokens) addToken(token);
    for (const mark of snapshot.users) addUser(mark);
    if (!snapshot.isLast) return;
    known = began;
    began = null;
  }

  return {
    connected() {
      began = null;
    },
    learn(message) {
      forget();
      if (message.type === 'snapshot') addSnapshot(message);
      else if (message.type === 'revoked') addToken(message.token);
      else if (message.type === 'user_revoked') addUser(message);
      // Only a heartbeat proves that we are up to date: other events may be old ones, sent to catch up. During a
      // snapshot a heartbeat proves nothing.
      else if (message.type === 'heartbeat' && isComplete()) known = momentOf(clock);
    },
    includes({ sid, userId }) {
      return buckets.some(({ tokens, users }) => tokens.has(sid) || (users.get(userId) ?? 0) >= sid);
    },
    staleness() {
      return known ? elapsedSince(known, clock) / 1000 : Infinity;
    },
    isComplete,
    coveredAge: () => coveredAge,
    size: () => buckets.reduce((sum, { tokens, users }) => sum + tokens.size + users.size, 0),
  };
}
