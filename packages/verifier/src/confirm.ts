import { isFromOlder } from './connection.ts';
import type { VerifierClock } from './clock.ts';
import { setBackgroundTimeout, type Timer } from './runtime.ts';

/** Tells Latchkey how far this process has applied the feed, so that one can ask who refuses an ended token. */
export interface Confirm {
  /** Latchkey has seen this process. */
  connected(): void;
  /** A heartbeat with this id has shown that everything before it is applied. */
  applied(position: string): void;
  /** Says that this process accepts no more tokens. Never rejects, and waits for at most a second. */
  close(): Promise<void>;
}

interface Parts {
  /** @returns the seconds before which Latchkey wants no other confirmation. */
  confirm: (position: string, signal: AbortSignal) => Promise<number>;
  goodbye: (signal: AbortSignal) => Promise<void>;
  clock: Pick<VerifierClock, 'monotonic'>;
  /** Milliseconds. */
  times?: Partial<typeof TIMES> | undefined;
}

const TIMES = {
  /** At most this long after the heartbeat, so that not all readers confirm it at once. */
  jitter: 500,
  /** A position is confirmed again after this time, which shows that the process still runs. */
  repeat: 30_000,
  /** Before the next attempt at an older Latchkey, which takes no confirmations. */
  pause: 60_000,
  /** For the goodbye. */
  patience: 1000,
};

/**
 * Failures are reported to nobody: the feed goes on without confirmations, and Latchkey shows a reader that it does not
 * hear of. Each failure waits for the next heartbeat, and as long as Latchkey wanted before.
 */
export function makeConfirm({ confirm, goodbye, clock, times }: Parts): Confirm {
  const { jitter, repeat, pause, patience } = { ...TIMES, ...times };
  let isSeen = false;
  let isClosed = false;
  let latest = '';
  let confirmed = '';
  let repeatAt = 0;
  /** Milliseconds that Latchkey last asked for. */
  let pace = 0;
  let notBefore = -Infinity;
  const leaving = new AbortController();
  let timer: Timer | null = null;
  let sending = Promise.resolve();

  async function send(): Promise<void> {
    const position = latest;
    const sent = clock.monotonic();
    try {
      pace = (await confirm(position, leaving.signal)) * 1000;
      confirmed = position;
      repeatAt = sent + repeat;
      notBefore = sent + pace;
    } catch (error) {
      notBefore = sent + (isFromOlder(error) ? pause : pace);
    }
    timer = null;
  }

  return {
    connected() {
      isSeen = true;
    },
    applied(position) {
      latest = position;
      const now = clock.monotonic();
      if (timer !== null || isClosed || (position === confirmed && now < repeatAt)) return;
      const wait = Math.max(Math.random() * jitter, notBefore - now);
      timer = setBackgroundTimeout(() => {
        sending = send();
      }, wait);
    },
    async close() {
      if (isClosed) return;
      isClosed = true;
      if (timer !== null) clearTimeout(timer);
      if (!isSeen) return;
      // After the last confirmation, which would otherwise list this process again.
      const said = sending
        .then(() => {
          leaving.signal.throwIfAborted();
          return goodbye(leaving.signal);
        })
        .catch(() => undefined);
      let late: Timer | undefined;
      await Promise.race([said, new Promise((resolve) => (late = setTimeout(resolve, patience)))]);
      clearTimeout(late);
      // A request that hangs would keep the process from ending.
      leaving.abort();
    },
  };
}
