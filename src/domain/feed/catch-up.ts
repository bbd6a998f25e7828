import type { FeedSnapshotReason } from '../metrics/outcomes.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedEvent, FeedPosition, FeedRecord, RevocationFeed } from './ports.ts';
import type { FeedMessage } from './reader.ts';

interface CatchUpPorts {
  feed: Pick<RevocationFeed, 'read'>;
  record: FeedRecord;
  /** Seconds after the end of a session until all of its access tokens have expired. */
  remember: number;
  observe: Pick<Observe, 'feedSnapshot'>;
}

/** Moves a reader from one position to a later one. */
export interface Step {
  /** Sent in order, each after the previous one was flushed. */
  parts: FeedMessage[][];
  position: FeedPosition;
  /** Nothing was left to read after this step. */
  isLast: boolean;
}

/** Events per read. */
export const PAGE = 1000;
/** Tokens, and users, in one part of a snapshot. */
const PART = 5000;
/** How much further back a snapshot looks, in seconds: a verifier's clock may be up to 30 seconds off. */
const MARGIN = 60;
/** A position after every event. */
const END = Number.MAX_SAFE_INTEGER;

/** Brings readers up to date that do not follow the stream yet. */
export function makeCatchUp({ feed, record, remember, observe }: CatchUpPorts) {
  let snapshotInProgress: Promise<Step> | null = null;

  /** Reads the position before the record: what is committed later is published after that position. */
  async function takeSnapshot(): Promise<Step> {
    const { epoch, last } = await feed.read(END, 0);
    const { tokens, statuses } = await record.within(remember + MARGIN);
    const size = Math.max(tokens.length, statuses.length);
    const position = { epoch, seq: last };
    const parts: FeedMessage[][] = [];
    for (let i = 0; i === 0 || i < size; i += PART) {
      const part = { tokens: tokens.slice(i, i + PART), users: [], statuses: statuses.slice(i, i + PART) };
      const isLast = i + PART >= size;
      parts.push([{ type: 'snapshot', ...part, remember, position: isLast ? position : null }]);
    }
    return { parts, position, isLast: false };
  }

  return {
    /**
     * The events after a position, or a snapshot if they are no longer available. Concurrent calls share one snapshot:
     * events that it lacks come after its position.
     * @param from null for no position.
     * @throws AuthError `unavailable`
     */
    async step(from: FeedPosition | null, lost: FeedSnapshotReason): Promise<Step> {
      let reason = lost;
      if (from) {
        const { epoch, last, events } = await feed.read(from.seq, PAGE);
        if (epoch === from.epoch && events && from.seq <= last) return followingStep(from, events);
        reason = epoch === from.epoch ? 'trimmed' : 'epoch';
      }
      snapshotInProgress ??= takeSnapshot().finally(() => {
        snapshotInProgress = null;
      });
      const snapshot = await snapshotInProgress;
      observe.feedSnapshot(reason);
      return snapshot;
    },
  };
}

export type CatchUp = ReturnType<typeof makeCatchUp>;

function followingStep(from: FeedPosition, events: readonly FeedEvent[]): Step {
  const seq = events.at(-1)?.seq ?? from.seq;
  return {
    parts: events.length === 0 ? [] : [eventMessages(from.epoch, events)],
    position: { epoch: from.epoch, seq },
    isLast: events.length < PAGE,
  };
}

export function eventMessages(epoch: string, events: readonly FeedEvent[]): FeedMessage[] {
  return events.map((event) => ({ type: 'event', event, position: { epoch, seq: event.seq } }));
}
