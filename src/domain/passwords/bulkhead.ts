import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';

export interface BulkheadOptions {
  /** How many run at once. */
  concurrency: number;
  /** How many may wait. */
  queue: number;
  /** How long one may wait, in milliseconds. */
  queueTimeout: number;
}

export interface Timers {
  set(callback: () => void, ms: number): unknown;
  clear(timer: unknown): void;
}

interface Waiting {
  start: () => void;
  timer: unknown;
}

/** How much the newest task counts in the mean of how long one takes: a change of load shows within a few. */
const WEIGHT = 0.2;

export interface Bulkhead {
  /** @throws AuthError `overloaded` */
  run<Result>(task: () => Promise<Result>): Promise<Result>;
  /**
   * Whether what came now would be refused.
   * @returns the refusal, or null.
   */
  refusal(): AuthError | null;
  /** How many tasks run, and how many wait. */
  running: () => number;
  waiting: () => number;
}

/**
 * Bounds how much hashing goes on at once. Each hash takes 128 MiB and a thread of the pool that DNS look-ups share:
 * unbounded logins would end the process or stall its reconnects. Refused at once is what finds the queue full, and what
 * would wait for too long by what the last ones took: its client would have given up on it.
 */
export function makeBulkhead(
  { concurrency, queue, queueTimeout }: BulkheadOptions,
  timers: Timers,
  clock: Pick<Clock, 'monotonic'>,
  observe: Pick<Observe, 'hashBegan' | 'hashEnded' | 'hashRejected'> = UNOBSERVED,
): Bulkhead {
  const waiting: Waiting[] = [];
  let running = 0;
  /** How long a task takes, in milliseconds: a mean that forgets; 0 until one has ended. */
  let duration = 0;

  /** Until a place is free for the one that comes `place`th in the queue, from 1 on. */
  const waitOf = (place: number) => (place * duration) / concurrency;

  function refusal(): AuthError | null {
    if (running < concurrency) return null;
    const place = waiting.length + 1;
    if (place <= queue && waitOf(place) <= queueTimeout) return null;
    // Whoever asks gives up on a refusal: each is counted, and once.
    observe.hashRejected(place > queue ? 'full' : 'wait');
    // By then those who wait now are through, if nobody comes in between.
    return overloaded(waitOf(waiting.length));
  }

  function enter(): Promise<void> {
    const refused = refusal();
    if (refused) return Promise.reject(refused);
    if (running < concurrency) {
      running++;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        start: () => {
          timers.clear(entry.timer);
          resolve();
        },
        // Tasks have become slower since it came.
        timer: timers.set(() => {
          waiting.splice(waiting.indexOf(entry), 1);
          observe.hashRejected('timeout');
          reject(overloaded(waitOf(waiting.length)));
        }, queueTimeout),
      };
      waiting.push(entry);
    });
  }

  function leave(): void {
    // The place is handed over, not given back: nobody who comes now may overtake those who wait.
    const next = waiting.shift();
    if (next) next.start();
    else running--;
  }

  return {
    refusal,
    running: () => running,
    waiting: () => waiting.length,
    async run(task) {
      const came = clock.monotonic();
      await enter();
      try {
        const start = clock.monotonic();
        observe.hashBegan((start - came) / 1000);
        const result = await task();
        const took = clock.monotonic() - start;
        observe.hashEnded(took / 1000);
        duration = duration === 0 ? took : duration + WEIGHT * (took - duration);
        return result;
      } finally {
        leave();
      }
    },
  };
}

/** @param wait milliseconds. */
function overloaded(wait: number): AuthError {
  return new AuthError('overloaded', { retryAfter: Math.max(1, Math.ceil(wait / 1000)) });
}
