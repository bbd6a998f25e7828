import { AuthError } from '../errors.ts';

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

/**
 * Bounds how much hashing goes on at once. Each hash takes 128 MiB and a thread of the pool that DNS look-ups share:
 * unbounded logins would end the process or stall its reconnects. What does not fit is refused at once, and what has
 * waited for too long as well: its client has given up on it.
 * @throws AuthError `overloaded`
 */
export function makeBulkhead({ concurrency, queue, queueTimeout }: BulkheadOptions, timers: Timers) {
  const waiting: Waiting[] = [];
  let running = 0;

  function enter(): Promise<void> {
    if (running < concurrency) {
      running++;
      return Promise.resolve();
    }
    if (waiting.length >= queue) return Promise.reject(overloaded());
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        start: () => {
          timers.clear(entry.timer);
          resolve();
        },
        timer: timers.set(() => {
          waiting.splice(waiting.indexOf(entry), 1);
          reject(overloaded());
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

  return async function run<Result>(task: () => Promise<Result>): Promise<Result> {
    await enter();
    try {
      return await task();
    } finally {
      leave();
    }
  };
}

export type Bulkhead = ReturnType<typeof makeBulkhead>;

function overloaded(): AuthError {
  return new AuthError('overloaded', { retryAfter: 2 });
}
