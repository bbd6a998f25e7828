import type { Clock } from '../clock.ts';
import type { FeedPosition } from '../feed/ports.ts';
import type { Observe } from '../metrics/observe.ts';
import type { FeedReaderStore } from './ports.ts';

interface ProgressPorts {
  store: Pick<FeedReaderStore, 'least'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
  observe: Pick<Observe, 'revocationEnforced'>;
}

/** How long a position is kept that not all have confirmed, in milliseconds. The alert tells of who does not. */
const LONGEST = 600_000;
/** Five reads of the feed a second for as long. */
const MOST = 3000;

/** Measures how long it takes until all readers have confirmed what this replica has read in the feed. */
export function makeProgress({ store, clock, observe }: ProgressPorts) {
  let epoch: string | null = null;
  let last = 0;
  /** Positions that not all have confirmed, the oldest first, with the time when this replica first saw them. */
  let unconfirmed: { seq: number; at: number }[] = [];

  return {
    /** This replica has read the feed up to here. */
    note: (position: FeedPosition): void => {
      if (position.epoch !== epoch) {
        // What readers got with a snapshot has no time of its own.
        ({ epoch, seq: last } = position);
        unconfirmed = [];
      }
      if (position.seq <= last) return;
      last = position.seq;
      if (unconfirmed.length < MOST) unconfirmed.push({ seq: last, at: clock.monotonic() });
    },

    /** Asks the record only while a position is unconfirmed. @throws AuthError `unavailable` */
    measure: async (): Promise<void> => {
      const now = clock.monotonic();
      unconfirmed = unconfirmed.filter(({ at }) => now - at <= LONGEST);
      if (epoch === null || unconfirmed.length === 0) return;
      const asked = epoch;
      const least = await store.least(asked, clock.now());
      if (epoch !== asked || least === null) return;
      const seenAt = clock.monotonic();
      if (least !== Infinity)
        for (const { seq, at } of unconfirmed)
          if (seq <= least) observe.revocationEnforced((seenAt - at) / 1000);
      unconfirmed = unconfirmed.filter(({ seq }) => seq > least);
    },
  };
}

export type Progress = ReturnType<typeof makeProgress>;
