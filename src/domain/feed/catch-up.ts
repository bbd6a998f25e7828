import type { FeedSnapshotReason } from '../metrics/outcomes.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedEvent, FeedPosition, RevocationFeed, RevokedTokens } from './ports.ts';
import type { FeedMessage } from './reader.ts';

interface CatchUpPorts {
  feed: Pick<RevocationFeed, 'read'>;
  revoked: RevokedTokens;
  /** Seconds after which no access token is good that was issued before its session's end. */
  remember: number;
  observe: Pick<Observe, 'feedSnapshot'>;
}

/** What brings a reader from one position to another. */
export interface Step {
  /** Sent one after another, each once the one before has left us. */
  parts: FeedMessage[][];
  position: FeedPosition;
  /** Nothing was left to be read when this was. */
  isLast: boolean;
}

/** Read at once. */
export const PAGE = 1000;
/** Ids in one part of a snapshot. */
const PART = 5000;
/** Seconds by which a snapshot looks back further than it has to: for a verifier whose clock is up to 30 seconds off. */
const MARGIN = 60;
/** Beyond every number. */
const END = Number.MAX_SAFE_INTEGER;

/** What a reader has to be told that does not follow the stream yet. */
export function makeCatchUp({ feed, revoked, remember, observe }: CatchUpPorts) {
  let taking: Promise<Step> | null = null;

  /** First the position, then the record: what is committed after that is published after it. */
  async function take(): Promise<Step> {
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
     * The events after a position, or a snapshot where they are not to be had. Whoever asks while one is being taken
     * shares it: what it does not hold comes after its position.
     * @param from null for nowhere.
     * @throws AuthError `unavailable`
     */
    async step(from: FeedPosition | null, lost: FeedSnapshotReason): Promise<Step> {
      let reason = lost;
      if (from) {
        const { epoch, last, events } = await feed.read(from.seq, PAGE);
        if (epoch === from.epoch && events && from.seq <= last) return followingStep(from, events);
        reason = epoch === from.epoch ? 'trimmed' : 'epoch';
      }
      taking ??= take().finally(() => {
        taking = null;
      });
      const snapshot = await taking;
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
