import type { VerifierClock } from './clock.ts';
import type { FeedMessage, UserMark } from './feed-message.ts';
import type { VerifiedToken } from './verified-token.ts';

/** What the feed has told, for as long as it matters. */
export interface Revocations {
  /** To be said of every new connection: a snapshot that was cut off is not gone on with, but begun anew. */
  connected(): void;
  learn(message: FeedMessage): void;
  /** Whether it is known to be revoked. */
  includes(token: Pick<VerifiedToken, 'sid' | 'userId'>): boolean;
  /** Seconds since everything that had been published was known; Infinity before the first whole snapshot. */
  staleness(): number;
  /** Seconds for which a revocation is kept: an access token that is older may have been forgotten. */
  kept(): number;
  /** How many are kept. */
  size(): number;
}

/** What was told within a sixteenth of the time for which it is kept. */
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

interface Moment {
  now: number;
  monotonic: number;
}

const BUCKETS = 16;

/**
 * Memory follows the number of revocations within the lifetime of an access token, and nothing else: whole buckets are
 * dropped when no access token of theirs can be unexpired.
 * @param clockTolerance seconds for which an expired token is still taken: as much longer is kept.
 */
export function makeRevocations(clock: VerifierClock, clockTolerance: number): Revocations {
  const buckets: Bucket[] = [];
  let kept = 0;
  let known: Moment | null = null;
  let began: Moment | null = null;

  const moment = (): Moment => ({ now: clock.now(), monotonic: clock.monotonic() });

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

  // What is told again moves on to the newest bucket, so that nothing is kept twice.
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

  /** A snapshot is as old as its first part; until its last part is there, something is missing. */
  function addSnapshot(snapshot: FeedMessage & { type: 'snapshot' }): void {
    began ??= moment();
    kept = snapshot.remember + clockTolerance;
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
      // Any other event may be an old one that is caught up on; and amid a snapshot a heartbeat vouches for nothing.
      else if (known && !began) known = moment();
    },
    includes({ sid, userId }) {
      return buckets.some(({ tokens, users }) => tokens.has(sid) || (users.get(userId) ?? 0) >= sid);
    },
    staleness() {
      if (!known) return Infinity;
      const { now, monotonic } = moment();
      // The calendar's clock goes on while a machine is suspended, the monotonic one does not go back.
      return Math.max(now - known.now, monotonic - known.monotonic) / 1000;
    },
    kept: () => kept,
    size: () => buckets.reduce((sum, { tokens, users }) => sum + tokens.size + users.size, 0),
  };
}
