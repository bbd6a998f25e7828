import type { Clock } from '../clock.ts';
import { AuthError, ignoreOutage } from '../errors.ts';
import type { FeedPosition, RevocationFeed } from '../feed/ports.ts';
import { makeSharedLook } from '../limits/shared-look.ts';
import { judge, type EnforcementState, type FeedSpan, type Judgement, type Published } from './judge.ts';
import type { EndedTarget, FeedReaderStore, JudgedReader, ReadersLook, Target } from './ports.ts';

interface EnforcementPorts {
  store: Pick<FeedReaderStore, 'ended' | 'look'>;
  /** With the epochs that readers know. */
  feed: Pick<RevocationFeed, 'fence' | 'end'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
}

export interface WaitingReader extends Judgement {
  reader: JudgedReader;
}

/** Times in milliseconds since 1970. */
export interface EnforcementAnswer {
  /** null if the target is unknown or has not ended. */
  endedAt: number | null;
  /** null while a part is not published. */
  published: number | null;
  /** Published, and nobody is pending or unknown. */
  done: boolean;
  counts: Record<EnforcementState, number>;
  /** Those who are pending or unknown, the pending first; at most MOST_WAITING. */
  waiting: WaitingReader[];
}

/** An open question of a service, or of a command. */
interface Question {
  asker: string | null;
  stop: () => void;
}

type Look = ReadersLook & { end: FeedPosition | null };

export const MOST_WAITING = 100;
/** Seconds that a question may wait. */
export const LONGEST_WAIT = 30;
/** Questions that may be open on a replica, and those of one service: each judges all readers every second. */
const MOST_OPEN = 64;
const MOST_OPEN_PER_SERVICE = 8;
/** Unpublished tokens that one look follows. Those of later questions wait until earlier ones are answered. */
const MOST_FOLLOWED = 20_000;
/** Milliseconds after which tokens have expired for everybody, also by a clock that is behind. */
const EXPIRY_MARGIN = 65_000;

/** Which readers refuse what has ended. Whoever asks waits until all do, or for as long as it likes. */
export function makeEnforcement(ports: EnforcementPorts) {
  const { store, feed, clock, sleep } = ports;
  /** The tokens whose publication somebody waits for, by question. */
  const followed = new Set<ReadonlySet<number>>();
  const open = new Set<Question>();
  let isClosing = false;
  let latest: Look | null = null;

  // All who wait share one read a second.
  const shared = makeSharedLook(
    async () => {
      const look = await store.look(firstOf(followed, MOST_FOLLOWED));
      // After the readers: nobody can have confirmed more.
      latest = { ...look, end: await feed.end().catch(orNull) };
    },
    { clock, sleep },
  );

  async function look(): Promise<Look> {
    await shared.fresh();
    if (!latest) throw new AuthError('unavailable');
    return latest;
  }

  /** @param signal aborts once the wait is over. */
  async function answer(target: Target, signal: AbortSignal): Promise<EnforcementAnswer> {
    const ended = await store.ended(target);
    if (!ended) return { endedAt: null, published: null, done: false, counts: countOf([]), waiting: [] };
    const publication = follow(ended, 'all' in target ? clock.now() : 0);
    followed.add(publication.pending);
    try {
      return await untilDone(ended, publication, signal);
    } finally {
      followed.delete(publication.pending);
    }
  }

  async function untilDone(
    ended: EndedTarget,
    publication: Publication,
    signal: AbortSignal,
  ): Promise<EnforcementAnswer> {
    const over = aborted(signal);
    const fence = makeFenceOf(feed, signal);
    // Somebody who does not want to wait gets a look too.
    let seen = await look();
    let failure: Error | null = null;
    for (;;) {
      publication.note(seen.published);
      const published = publishedOf(ended, publication, ports.accessTokenTtl);
      const span = published && fence.spanTo(seen.end);
      const now = Math.min(seen.now, clock.now());
      const found = seen.readers.map((reader) => ({ reader, ...judge(reader, published, span, now) }));
      const result = answerOf(ended, published, found);
      if (result.done) return result;
      if (signal.aborted) {
        failure ??= await fence.failure();
        if (failure !== null) throw failure;
        return result;
      }
      const next = look().then(
        (fresh) => {
          seen = fresh;
          failure = null;
        },
        (error: unknown) => {
          failure = asError(error);
        },
      );
      await Promise.race([over, next, fence.changed()]);
    }
  }

  return {
    /**
     * @param wait seconds.
     * @param asker the service; null for a command.
     * @param gone aborts if nobody waits for the answer any more.
     * @throws AuthError `unavailable`, also if a store was away at the end of the wait and it is not done
     */
    ask: async (
      target: Target,
      wait: number,
      asker: string | null = null,
      gone?: AbortSignal,
    ): Promise<EnforcementAnswer> => {
      const own = [...open].filter((each) => each.asker === asker).length;
      if (open.size >= MOST_OPEN || (asker !== null && own >= MOST_OPEN_PER_SERVICE))
        throw new AuthError('unavailable');
      const controller = new AbortController();
      const stop = () => {
        controller.abort();
      };
      const question = { asker, stop };
      open.add(question);
      gone?.addEventListener('abort', stop);
      if (isClosing || gone?.aborted || wait === 0) stop();
      else void sleep(wait * 1000).then(stop);
      try {
        return await answer(target, controller.signal);
      } finally {
        open.delete(question);
        stop();
        gone?.removeEventListener('abort', stop);
      }
    },

    /** Whoever waits gets an answer now, because this replica stops. */
    close(): void {
      isClosing = true;
      for (const { stop } of open) stop();
    },
  };
}

export type Enforcement = ReturnType<typeof makeEnforcement>;

interface Publication {
  /** Tokens that are not known to be published. */
  pending: Set<number>;
  note: (published: ReadonlyMap<number, number>) => void;
  /** When all of them were; null before. */
  at: () => number | null;
}

/** @param from no earlier time counts as the publication. */
function follow({ pending, publishedAt }: EndedTarget, from: number): Publication {
  const left = new Set(pending);
  let latest = Math.max(publishedAt, from);
  return {
    pending: left,
    note(published) {
      for (const id of left) {
        const at = published.get(id);
        if (at === undefined) continue;
        latest = Math.max(latest, at);
        left.delete(id);
      }
    },
    at: () => (pending === null || left.size > 0 ? null : latest),
  };
}

function publishedOf(
  { longLivedUntil }: EndedTarget,
  publication: Publication,
  accessTokenTtl: number,
): Published | null {
  const at = publication.at();
  if (at === null) return null;
  const tokensEnd = Math.max(at + accessTokenTtl * 1000, longLivedUntil ?? 0);
  return { at, expiresAt: longLivedUntil === null ? null : tokensEnd + EXPIRY_MARGIN };
}

/** Gets a fence that begins after its first use, and another one if the feed has begun a new epoch since. */
function makeFenceOf(feed: Pick<RevocationFeed, 'fence'>, signal: AbortSignal) {
  let position: FeedPosition | null = null;
  let failure: Error | null = null;
  let getting: Promise<void> | null = null;
  /** The end that was known when one was asked for last: with each look, at most once. */
  let askedWith: FeedPosition | null | undefined;

  function get(): void {
    getting ??= feed.fence(signal).then(
      (end) => {
        position = end;
        failure = null;
        getting = null;
      },
      (error: unknown) => {
        failure = asError(error);
        getting = null;
      },
    );
  }

  return {
    /** @param end of the feed; null if nobody knows. */
    spanTo(end: FeedPosition | null): FeedSpan | null {
      if (end && position && position.epoch !== end.epoch) position = null;
      if (!position && askedWith !== end) {
        askedWith = end;
        get();
      }
      if (!end || !position) return null;
      return { epoch: end.epoch, from: position.seq, to: end.seq };
    },
    /** Why there is none, once the signal has aborted. */
    async failure(): Promise<Error | null> {
      await getting;
      return failure;
    },
    /** Resolves once there is one; never if there is one already. */
    changed: () => getting ?? new Promise<void>(() => undefined),
  };
}

/** Each once: many who ask about everything follow the same ones. */
function firstOf(sets: Iterable<ReadonlySet<number>>, most: number): number[] {
  const all = new Set<number>();
  for (const set of sets)
    for (const id of set) {
      if (all.size >= most) return [...all];
      all.add(id);
    }
  return [...all];
}

function answerOf(
  { endedAt }: EndedTarget,
  published: Published | null,
  found: readonly WaitingReader[],
): EnforcementAnswer {
  const counts = countOf(found);
  const waiting = (['pending', 'unknown'] as const).flatMap((state) =>
    found.filter((each) => each.state === state),
  );
  return {
    endedAt,
    published: published?.at ?? null,
    done: published !== null && waiting.length === 0,
    counts,
    waiting: waiting.slice(0, MOST_WAITING),
  };
}

function countOf(found: readonly Judgement[]): Record<EnforcementState, number> {
  const counts = { enforced: 0, bounded: 0, pending: 0, unknown: 0 };
  for (const { state } of found) counts[state]++;
  return counts;
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else
      signal.addEventListener(
        'abort',
        () => {
          resolve();
        },
        { once: true },
      );
  });
}

function orNull(error: unknown): null {
  ignoreOutage(error);
  return null;
}

function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
