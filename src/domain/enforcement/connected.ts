import type { Clock } from '../clock.ts';
import type { FeedReader } from '../feed/reader.ts';
import { ignoreOutage } from '../errors.ts';
import type { FeedPosition, RevocationFeed } from '../feed/ports.ts';
import {
  MOST_READERS,
  NAMELESS,
  readerName,
  SEEN,
  type FeedReaderStore,
  type ReaderKey,
  type ReaderTally,
} from './ports.ts';

interface ConnectedPorts {
  store: Pick<FeedReaderStore, 'note' | 'fold' | 'removeSilent' | 'tally'>;
  /** Who is connected to this replica. */
  connected: () => readonly Pick<FeedReader, 'service' | 'id'>[];
  /** With the epochs that readers know. */
  feed: Pick<RevocationFeed, 'end'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
}

/** Milliseconds between two notes. */
export const NOTE_INTERVAL = 10_000;
/** A silent reader is forgotten after so many milliseconds. */
const SILENCE = 86_400_000;
/** Nobody has confirmed more than nothing. */
const NOWHERE: FeedPosition = { epoch: '', seq: 0 };
/** So many notes in a row must have succeeded: after an outage, nobody was seen for long. */
const STEADY = 6;

/**
 * Notes who is connected, so that a reader is known that never confirms. A row is added only for a connection that is
 * new, or that lacked it at the last note: otherwise a late note would bring back a process that said goodbye.
 */
export function makeConnected({ store, connected, feed, clock }: ConnectedPorts) {
  let noted = new WeakSet<object>();
  let steady = 0;
  /** Ends of the feed, the oldest first: the first is old enough for all to have confirmed it. */
  let ends: { end: FeedPosition; at: number }[] = [];
  let tally: ReaderTally | null = null;
  let readers = 0;

  async function note(): Promise<void> {
    const rows = new Map<string, ReaderKey & { isNew: boolean }>();
    const present = connected();
    for (const each of present) {
      const key = { serviceId: each.service.serviceId, reader: each.id ?? NAMELESS };
      const known = rows.get(readerName(key));
      const isNew = !noted.has(each) || key.reader === NAMELESS || known?.isNew === true;
      rows.set(readerName(key), { ...key, isNew });
    }
    const missing = new Set((await store.note([...rows.values()], clock.now())).map(readerName));
    noted = new WeakSet(
      present.filter(
        ({ service, id }) =>
          !missing.has(readerName({ serviceId: service.serviceId, reader: id ?? NAMELESS })),
      ),
    );
  }

  async function count(): Promise<void> {
    const end = await feed.end().catch((error: unknown) => {
      ignoreOutage(error);
      return null;
    });
    const now = clock.monotonic();
    if (end) ends.push({ end, at: now });
    const old = ends.findLastIndex(({ at }) => at <= now - SEEN);
    ends = ends.slice(Math.max(0, old));
    const [from] = ends;
    const counted = await store.tally(from?.end ?? NOWHERE, clock.now());
    readers = counted.current + counted.behind;
    tally = from && from.at <= now - SEEN ? counted : null;
  }

  return {
    /** Notes, tidies up and counts. @throws AuthError `unavailable` */
    pass: async (): Promise<void> => {
      const before = steady;
      steady = 0;
      try {
        await note();
      } finally {
        // Also if notes fail, because confirmations add rows too.
        await store.fold(MOST_READERS);
      }
      if (before >= STEADY) await store.removeSilent(SILENCE, clock.now());
      await count();
      steady = before + 1;
    },

    /** Of all replicas' readers; null until it is known. */
    tally: (): ReaderTally | null => tally,

    /** How many readers the installation had, by the last count that worked. It needs no end of the feed. */
    readers: (): number => readers,
  };
}

export type Connected = ReturnType<typeof makeConnected>;
