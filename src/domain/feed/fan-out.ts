import type { ServiceIdentity } from '../clients/service-client.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedEnd } from '../metrics/outcomes.ts';
import { eventMessages, PAGE, type CatchUp, type Step } from './catch-up.ts';
import type { FeedEvent, FeedPosition, RevocationFeed } from './ports.ts';
import type { FeedMessage, FeedReader } from './reader.ts';

interface FanOutPorts {
  feed: Pick<RevocationFeed, 'read'>;
  catchUp: CatchUp;
  /** Readers there may be at once. */
  maxReaders: number;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after so many milliseconds. */
  wait: (ms: number) => Promise<void>;
  /** Whether the secret by which it came is still good. */
  isClient: (client: ServiceIdentity) => boolean;
  observe: Pick<Observe, 'feedEnded'>;
  /** A fault of ours has ended a reader. */
  onError: (error: Error) => void;
}

/** Between two tries for a reader that cannot be told anything yet, in milliseconds. */
const RETRY = 250;
/** Between two heartbeats, in milliseconds. */
const HEARTBEAT = 1000;
/** Bytes that a reader may be behind; it comes back and goes on where it was. */
const MAX_BACKLOG = 1024 * 1024;
/** Within so many milliseconds a reader that was sent away comes back, if it is still there. */
const COMES_BACK = 15_000;

/**
 * Tells the readers of this replica what is published. The stream is read once for all who have caught up with it; who has
 * not reads it by itself, and joins them.
 */
export function makeFanOut(ports: FanOutPorts) {
  const { feed, catchUp, maxReaders, clock, wait, observe } = ports;
  const readers = new Set<FeedReader>();
  /** Those who have been told everything up to `cursor`, and perhaps more: up to this number. */
  const following = new Map<FeedReader, number>();
  let cursor: FeedPosition | null = null;
  let opening = 0;
  /** When readers began to be sent away because they could not be told anything, and when it last happened. */
  let refused: { since: number; last: number } | null = null;
  let isClosed = false;
  /** When the stream was last read for them, and they last heard so. */
  let readAt = 0;
  let beatAt = -HEARTBEAT;

  function end(reader: FeedReader, reason: FeedEnd): void {
    if (!readers.delete(reader)) return;
    following.delete(reader);
    observe.feedEnded(reason);
    reader.end();
  }

  /** @returns whether it follows the stream from now on. */
  function join(reader: FeedReader, { position, isLast }: Step): boolean {
    if (!isLast) return false;
    if (!cursor || following.size === 0) cursor = position;
    if (cursor.epoch !== position.epoch || position.seq < cursor.seq) return false;
    following.set(reader, position.seq);
    return true;
  }

  /** Brings a reader to where the others are. @param first what it is told first; null where that is not known yet. */
  async function follow(reader: FeedReader, first: Step | null): Promise<void> {
    let position: FeedPosition | null = null;
    for (let step = first; ; step = await catchUp.step(position, 'epoch').catch(orNull)) {
      for (const part of step?.parts ?? []) {
        if (!readers.has(reader)) return;
        reader.send(part);
        if (!(await reader.flushed())) end(reader, 'slow');
      }
      if (!readers.has(reader)) return;
      if (step) {
        ({ position } = step);
        if (join(reader, step)) return;
      }
      // The stores are away, or those who follow have yet to hear what this one has.
      if (!step || step.isLast) await wait(RETRY);
    }
  }

  function noteRefusal(): void {
    const now = clock.monotonic();
    refused = { since: now - refusedFor(now), last: now };
  }

  function refusedFor(now: number): number {
    return refused && now - refused.last < COMES_BACK ? now - refused.since : 0;
  }

  function start(reader: FeedReader, first: Step | null): void {
    follow(reader, first).catch((error: unknown) => {
      ports.onError(error as Error);
      end(reader, 'fault');
    });
  }

  /** Some of what follows the cursor is not to be had: each gets a snapshot. */
  function startAnew(): void {
    const lost = [...following.keys()];
    following.clear();
    cursor = null;
    for (const reader of lost) start(reader, null);
  }

  function tellFollowing({ epoch, seq }: FeedPosition, events: readonly FeedEvent[]): void {
    const messages = eventMessages(epoch, events);
    const last = seq + events.length;
    for (const [reader, told] of following) {
      if (told < last) {
        // The same array for all: it is written out once.
        reader.send(told === seq ? messages : messages.slice(told - seq));
        following.set(reader, last);
      }
      if (reader.backlog() > MAX_BACKLOG) end(reader, 'slow');
    }
  }

  return {
    /**
     * Finds what a new reader has to be told first, so that where this is not to be had it can be refused.
     * @param position the last one it knows; null for none.
     * @returns what starts it.
     * @throws AuthError `unavailable`
     */
    async open(position: FeedPosition | null): Promise<(reader: FeedReader) => void> {
      if (isClosed) throw new AuthError('unavailable');
      opening++;
      let first: Step;
      try {
        if (readers.size + opening > maxReaders) throw new AuthError('unavailable');
        first = await catchUp.step(position, 'new');
      } catch (error) {
        noteRefusal();
        throw error;
      } finally {
        opening--;
      }
      return (reader) => {
        refused = null;
        if (readers.size === 0) readAt = clock.monotonic();
        readers.add(reader);
        if (isClosed) end(reader, 'drain');
        else start(reader, first);
      };
    },

    /** The reader has gone by itself. */
    leave(reader: FeedReader): void {
      end(reader, 'left');
    },

    /** Reads what is new and passes it on. @throws AuthError `unavailable` */
    async poll(): Promise<void> {
      for (;;) {
        const asked = cursor;
        if (!asked || following.size === 0) return;
        const { epoch, events } = await feed.read(asked.seq, PAGE);
        // All have left meanwhile, and others have come.
        if (cursor !== asked) return;
        if (epoch !== asked.epoch || !events) {
          startAnew();
          return;
        }
        tellFollowing(asked, events);
        cursor = { epoch, seq: asked.seq + events.length };
        if (events.length < PAGE) break;
      }
      readAt = clock.monotonic();
      if (readAt - beatAt < HEARTBEAT) return;
      beatAt = readAt;
      const messages: FeedMessage[] = [{ type: 'heartbeat', position: cursor }];
      for (const reader of following.keys()) reader.send(messages);
    },

    /** Ends the readers whose client or secret is gone. */
    endStrangers(): void {
      for (const reader of readers) if (!ports.isClient(reader.client)) end(reader, 'client');
    },

    readers: () => readers.size,
    /** For how long readers, or those sent away that come again, may have missed something, in milliseconds. */
    lag(): number {
      const now = clock.monotonic();
      return Math.max(readers.size === 0 ? 0 : now - readAt, refusedFor(now));
    },

    /** Ends all of them, and takes no more. */
    close(): void {
      isClosed = true;
      for (const reader of readers) end(reader, 'drain');
    },
  };
}

export type FanOut = ReturnType<typeof makeFanOut>;

/** An outage is waited for. */
function orNull(error: unknown): null {
  if (error instanceof AuthError && error.code === 'unavailable') return null;
  throw error;
}
