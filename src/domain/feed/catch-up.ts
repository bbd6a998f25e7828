import type { FeedSnapshotReason } from '../metrics/outcomes.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedEvent, FeedPosition, RevocationFeed, RevokedTokens } from './ports.ts';
import type { FeedMessage } from './reader.ts';

interface CatchUpPorts {
  feed: Pick<RevocationFeed, 'read'>;
  revoked: RevokedTokens;
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
/** Ids in one part of a snapshot. */
const PART = 5000;
/** How much further back a snapshot looks, in seconds: a verifier's clock may be up to 30 seconds off. */
const MARGIN = 60;
/** A position after every event. */
const END = Number.MAX_SAFE_INTEGER;

/** Brings readers up to date that do not follow the stream yet. */
export function makeCatchUp({ feed, revoked, remember, observe }: CatchUpPorts) {
  let snapshotInProgress: Promise<Step> | null = null;

  /** Reads the position before the records: a revocation that is committed later is published after that position. */
  async function takeSnapshot(): Promise<Step> {
    const { epoch, last } = await feed.read(END, 0);
    const tokens = await revoked.within(remember + MARGIN);
    const position = { epoch, seq: last };
    const parts: FeedMessage[][] = [];
    for (let i = 0; i === 0 || i < tokens.length; i += PART) {
      const isLast = i + PART >= tokens.length;
      const ids = tokens.slice(i, i + PART);
      parts.push([
        { type: 'snapshot', tokens: ids, users: [], remember, position: isLast ? position : null },
      ]);
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
