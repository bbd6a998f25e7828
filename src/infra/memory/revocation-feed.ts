import type { TokenKey } from '../../domain/principal.ts';
import { makeFence } from '../../domain/feed/fence.ts';
import { pause } from '../pause.ts';
import {
  eventTypesOf,
  type FeedEvent,
  type RevocationFeed,
  type UserEventType,
} from '../../domain/feed/ports.ts';
import type { Observe } from '../../telemetry/observe.ts';

export interface MemoryFeedOptions {
  /** Returns a unique name. */
  newEpoch: () => string;
  /** Milliseconds by any clock. */
  now: () => number;
  observe: Pick<Observe, 'feedPublished'>;
  /** Events to keep. */
  kept?: number;
}

/** As in redis/revocation-feed.ts; times in milliseconds. */
const KEPT = 100_000;
const ONCE = 120_000;
const MARGIN = 10_000;

type Kind = 'token' | 'theft' | 'user' | UserEventType;

/** Replaces Redis in the embedded default: the same contract over an array, for one process. */
export function makeMemoryRevocationFeed(options: MemoryFeedOptions): RevocationFeed {
  const { newEpoch, now, observe, kept = KEPT } = options;
  let epoch = newEpoch();
  let events: FeedEvent[] = [];
  let last = 0;
  let renewed = now();
  /** How often this epoch was asked for a full renewal, and how many of these one has served. */
  let asked = 0;
  let served = 0;
  /** When each event was added, the oldest first. */
  const recent = new Map<string, number>();

  /** @returns true unless the event was already noted within ONCE. */
  function note(kind: Kind, userId: number, number: number): boolean {
    const name = `${kind}:${userId}:${number}`;
    for (const [each, at] of recent) {
      if (at >= now() - ONCE) break;
      recent.delete(each);
    }
    if (recent.has(name)) return false;
    recent.set(name, now());
    return true;
  }
  function add(event: FeedEvent): void {
    events.push(event);
    last = event.seq;
    observe.feedPublished(1);
    // Not for each event: slicing copies the array.
    if (events.length >= 2 * kept) events = events.slice(-kept);
  }
  const fence = makeFence({
    look: (isAsking) => Promise.resolve({ epoch, last, asked: isAsking ? ++asked : null, served }),
    pause,
  });
  const addTokens = (kind: Kind, keys: readonly TokenKey[]) => {
    for (const { userId, tokenId } of keys) {
      if (note(kind, userId, tokenId)) add({ seq: last + 1, type: 'revoked', tokenId, userId });
    }
  };

  return {
    publish: async (keys) => {
      addTokens('token', keys);
    },
    publishUnrecorded: async (keys) => {
      addTokens('theft', keys);
    },
    publishUser: async (mark, keys) => {
      if (note('user', mark.userId, mark.before)) add({ seq: last + 1, type: 'user_revoked', ...mark });
      for (const { userId, tokenId } of keys) note('token', userId, tokenId);
    },
    publishChanges: async (changes) => {
      for (const { user, status } of changes) {
        const { id: userId, version = 0 } = user;
        for (const type of eventTypesOf(status))
          if (note(type, userId, version)) add({ seq: last + 1, type, userId, version });
      }
    },
    renewed: async (from, to, mark) => {
      if (now() - renewed > from - MARGIN) {
        epoch = newEpoch();
        events = [];
        last = 0;
        asked = 0;
        served = 0;
        recent.clear();
      }
      renewed = now() - to;
      if (mark?.epoch === epoch) served = Math.max(served, mark.asked);
    },
    read: async (seq, limit) => {
      const first = events[0]?.seq ?? last + 1;
      const isThere = seq >= last || first <= seq + 1;
      return {
        epoch,
        last,
        events: isThere ? events.slice(Math.max(0, seq + 1 - first)).slice(0, limit) : null,
      };
    },
    fence,
    end: async () => ({ epoch, seq: last }),
    askedRenewal: async () => (asked > served ? { epoch, asked } : null),
  };
}
