import { isFromOlder } from './connection.ts';
import type { Latchkey } from './latchkey.ts';
import { setBackgroundTimeout, type Timer } from './runtime.ts';

/**
 * Tells Latchkey which long-lived and limited tokens were taken from memory, so that their owners see these
 * uses.
 */
export interface Uses {
  /** @param sid the id of the token. */
  note(sid: number): void;
  /** Reports nothing any more. */
  close(): void;
}

interface Parts {
  report: Latchkey['reportUses'];
  /** The most tokens that wait for a report. */
  size: number;
  /** Called after each report, with null if it worked. */
  onReport: (failure: unknown) => void;
  times?: UsesTimes | undefined;
}

/** Milliseconds. */
const TIMES = {
  /** Between the first use that waits and the report. */
  interval: 60_000,
  /** Before the next report to an older Latchkey, which takes none. */
  pause: 3_600_000,
};

export type UsesTimes = Partial<typeof TIMES>;

/** The most ids that Latchkey takes in one request. */
const BATCH = 500;

export function makeUses({ report, size, onReport, times }: Parts): Uses {
  const { interval, pause } = { ...TIMES, ...times };
  const used = new Set<number>();
  let timer: Timer | null = null;
  let isClosed = false;

  function waitFor(ms: number): void {
    timer = setBackgroundTimeout(() => void tell(), ms);
  }

  async function tell(): Promise<void> {
    const waiting = [...used];
    used.clear();
    let failure: unknown = null;
    while (waiting.length > 0 && failure === null)
      try {
        await report(waiting.slice(0, BATCH));
        waiting.splice(0, BATCH);
      } catch (error) {
        failure = error;
      }
    onReport(failure);
    // A use that is shown too late misleads an owner less than one that is never shown.
    for (const sid of waiting) if (used.size < size) used.add(sid);
    timer = null;
    if (isClosed) return;
    if (isFromOlder(failure)) waitFor(pause);
    else if (used.size > 0) waitFor(interval);
  }

  return {
    note(sid) {
      if (isClosed || used.size >= size) return;
      used.add(sid);
      if (timer === null) waitFor(interval);
    },
    close() {
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
    },
  };
}
