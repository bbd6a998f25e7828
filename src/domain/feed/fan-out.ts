import type { ServiceVersions } from '../services/directory.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { Clock } from '../clock.ts';
import { AuthError, ignoreOutage } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedEnd } from '../metrics/outcomes.ts';
import { eventMessages, PAGE, type CatchUp, type Step } from './catch-up.ts';
import type { FeedEvent, FeedPosition, RevocationFeed } from './ports.ts';
import type { FeedMessage, FeedReader } from './reader.ts';

interface FanOutPorts {
  feed: Pick<RevocationFeed, 'read'>;
  catchUp: CatchUp;
  /** Limit of readers on this replica. */
  maxReaders: number;
  /** Limit of readers of one service on this replica. */
  maxReadersPerService: number;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  wait: (ms: number) => Promise<void>;
  /** Whether the service's credentials are still good, and it still has the right to read the feed. */
  isAdmitted: (service: ServiceIdentity) => boolean;
  serviceVersions: () => ServiceVersions;
  /** The stream was read up to here. */
  onRead: (position: FeedPosition) => void;
  observe: Pick<Observe, 'feedEnded'>;
  /** A bug has ended a reader. */
  onError: (error: Error) => void;
}

/** Interval between tries to bring a reader up to date, in milliseconds. */
const RETRY = 250;
/** Interval between heartbeats, in milliseconds. */
const HEARTBEAT = 1000;
/** Unsent bytes after which a slow reader is disconnected; it reconnects and resumes at its position. */
const MAX_BACKLOG = 1024 * 1024;
/** A refused reader that is still alive retries within this time, in milliseconds. */
const RECONNECT_TIME = 15_000;

/**
 * Sends published revocations to the readers of this replica. One read of the stream serves all readers that have
 * caught up. A new reader catches up on its own, and then joins them.
 */
export function makeFanOut(ports: FanOutPorts) {
  const { feed, catchUp, maxReaders, maxReadersPerService, clock, wait, observe } = ports;
  const readers = new Set<FeedReader>();
  /** Readers that have caught up, with the last number sent to each: that of `cursor`, or a later one. */
  const following = new Map<FeedReader, number>();
  let cursor: FeedPosition | null = null;
  /** The service ids of readers that are being opened. */
  const opening: string[] = [];
  /** When readers began to be refused, and when one was last refused. */
  let refused: { since: number; last: number } | null = null;
  let isClosed = false;
  /** When the stream was last read, and when the last heartbeat was sent. */
  let readAt = 0;
  let beatAt = -Infinity;

  function end(reader: FeedReader, reason: FeedEnd): void {
    if (!readers.delete(reader)) return;
    following.delete(reader);
    observe.feedEnded(reason);
    reader.end();
  }

  /** @returns whether the reader follows the stream from now on. */
  function join(reader: FeedReader, { position, isLast }: Step): boolean {
    if (!isLast) return false;
    if (!cursor || following.size === 0) cursor = position;
    if (cursor.epoch !== position.epoch || position.seq < cursor.seq) return false;
    following.set(reader, position.seq);
    return true;
  }

  /** Lets a reader catch up with the others. @param first its first step; null if that has still to be read. */
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
      // The stores are down, or this reader is ahead of those that follow.
      if (!step || step.isLast) await wait(RETRY);
    }
  }

  function readersOf(serviceId: string): number {
    const open = [...readers].filter(({ service }) => service.serviceId === serviceId);
    return open.length + opening.filter((each) => each === serviceId).length;
  }

  function noteRefusal(): void {
    const now = clock.monotonic();
    refused = { since: now - refusedFor(now), last: now };
  }

  function refusedFor(now: number): number {
    return refused && now - refused.last < RECONNECT_TIME ? now - refused.since : 0;
  }

  function start(reader: FeedReader, first: Step | null): void {
    follow(reader, first).catch((error: unknown) => {
      ports.onError(error as Error);
      end(reader, 'fault');
    });
  }

  /** Events after the cursor are lost: each reader gets a snapshot. */
  function restartReaders(): void {
    const lost = [...following.keys()];
    following.clear();
    cursor = null;
    for (const reader of lost) start(reader, null);
  }

  function sendToFollowing({ epoch, seq }: FeedPosition, events: readonly FeedEvent[]): void {
    const messages = eventMessages(epoch, events);
    const last = seq + events.length;
    for (const [reader, told] of following) {
      if (told < last) {
        // All readers share one array, so that it is serialised once.
        reader.send(told === seq ? messages : messages.slice(told - seq));
        following.set(reader, last);
      }
      if (reader.backlog() > MAX_BACKLOG) end(reader, 'slow');
    }
  }

  return {
    /**
     * Reads the first step of a new reader. If that fails, the reader is refused.
     * @param position the last one that it knows; null for none.
     * @param serviceId the reader's service.
     * @returns a function that starts the reader.
     * @throws AuthError `unavailable`
     */
    async open(position: FeedPosition | null, serviceId: string): Promise<(reader: FeedReader) => void> {
      if (isClosed) throw new AuthError('unavailable');
      // Not a refusal in the sense of `lag`: one service's limit delays no other service.
      if (readersOf(serviceId) >= maxReadersPerService) throw new AuthError('unavailable');
      opening.push(serviceId);
      let first: Step;
      try {
        if (readers.size + opening.length > maxReaders) throw new AuthError('unavailable');
        first = await catchUp.step(position, 'new');
      } catch (error) {
        noteRefusal();
        throw error;
      } finally {
        opening.splice(opening.indexOf(serviceId), 1);
      }
      return (reader) => {
        refused = null;
        if (readers.size === 0) readAt = clock.monotonic();
        readers.add(reader);
        if (isClosed) end(reader, 'drain');
        else {
          start(reader, first);
          reader.send([servicesMessage(ports.serviceVersions())]);
        }
      };
    },

    /** The reader has disconnected. */
    leave(reader: FeedReader): void {
      end(reader, 'left');
    },

    /** Reads new events and sends them to the readers. @throws AuthError `unavailable` */
    async poll(): Promise<void> {
      for (;;) {
        const asked = cursor;
        if (!asked || following.size === 0) return;
        const { epoch, events } = await feed.read(asked.seq, PAGE);
        // During the read all readers left, and others came.
        if (cursor !== asked) return;
        if (epoch !== asked.epoch || !events) {
          restartReaders();
          return;
        }
        sendToFollowing(asked, events);
        cursor = { epoch, seq: asked.seq + events.length };
        if (events.length < PAGE) break;
      }
      readAt = clock.monotonic();
      ports.onRead(cursor);
      if (readAt - beatAt < HEARTBEAT) return;
      beatAt = readAt;
      const messages: FeedMessage[] = [{ type: 'heartbeat', position: cursor }];
      for (const reader of following.keys()) reader.send(messages);
    },

    /** Tells every reader the versions of the registered services, which have changed. */
    sendServices(versions: ServiceVersions): void {
      const messages = [servicesMessage(versions)];
      for (const reader of readers) reader.send(messages);
    },

    /** Ends the readers whose service, credentials or right is gone. */
    disconnectInvalidServices(): void {
      for (const reader of readers) if (!ports.isAdmitted(reader.service)) end(reader, 'client');
    },

    /** Ends all readers, because this replica may not serve at present. */
    disconnectAll(): void {
      for (const reader of readers) end(reader, 'standing');
    },

    readers: () => readers.size,
    /** The readers of this replica. */
    connected: (): readonly FeedReader[] => [...readers],
    /** For how long readers, or refused ones that keep retrying, may have missed events, in milliseconds. */
    lag(): number {
      const now = clock.monotonic();
      return Math.max(readers.size === 0 ? 0 : now - readAt, refusedFor(now));
    },

    /** Ends all readers, and accepts no more. */
    close(): void {
      isClosed = true;
      for (const reader of readers) end(reader, 'drain');
    },
  };
}

export type FanOut = ReturnType<typeof makeFanOut>;

/** Without a position: it belongs to no place in the stream, and the next one replaces it. */
function servicesMessage(versions: ServiceVersions): FeedMessage {
  return { type: 'clients', versions, position: null };
}

/** An outage is no error here: the reader waits and tries again. */
function orNull(error: unknown): null {
  ignoreOutage(error);
  return null;
}
