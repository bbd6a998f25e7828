import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { HashRejection } from '../metrics/outcomes.ts';
import { makeFairQueue } from './fair-queue.ts';

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
  giveUp: (reason: HashRejection) => void;
}

/** Weight of the newest task in the mean duration: the mean follows a change of load within a few tasks. */
const WEIGHT = 0.2;

export interface Bulkhead {
  /**
   * @param key the caller's address: addresses take turns.
   * @throws AuthError `overloaded`
   */
  run<Result>(key: string, task: () => Promise<Result>): Promise<Result>;
  /**
   * Whether a new task of this key would be refused now. A refusal is counted.
   * @returns the refusal, or null.
   */
  tryAdmit: (key: string) => AuthError | null;
  /** How many tasks run, and how many wait. */
  running: () => number;
  waiting: () => number;
}

/**
 * Bounds how much hashing goes on at once. Each hash takes 128 MiB and a thread of the pool that DNS look-ups share:
 * unbounded logins would exhaust the memory or stall reconnects. If a task would have to wait for too long, by the
 * duration of recent tasks, it is refused at once: its client would give up before.
 *
 * The keys of waiting tasks take turns, so that a burst from one address delays another by one task at most. If the
 * queue is full, a new task replaces the newest task of the key that has most.
 */
export function makeBulkhead(
  { concurrency, queue, queueTimeout }: BulkheadOptions,
  timers: Timers,
  clock: Pick<Clock, 'monotonic'>,
  observe: Pick<Observe, 'hashBegan' | 'hashEnded' | 'hashRejected'> = UNOBSERVED,
): Bulkhead {
  const waiting = makeFairQueue<Waiting>();
  let running = 0;
  /** Moving average of a task's duration, in milliseconds; 0 until the first one has ended. */
  let duration = 0;

  /** Expected time until the task at this place starts, in milliseconds. Places count from 1. */
  const waitOf = (place: number) => (place * duration) / concurrency;
  /** After this time the tasks ahead of a new one of this key are done, if no others arrive. */
  const refuse = (key: string) => overloaded(waitOf(waiting.placeOf(key) - 1));
  const isFull = () => waiting.size() >= queue;

  function tryAdmit(key: string): AuthError | null {
    if (running < concurrency) return null;
    const hasNoRoom = isFull() && waiting.largest(key) === key;
    if (!hasNoRoom && waitOf(waiting.placeOf(key)) <= queueTimeout) return null;
    // A request that is refused here never reaches `run`, so each refusal counts once.
    observe.hashRejected(hasNoRoom ? 'full' : 'wait');
    return refuse(key);
  }

  function enter(key: string): Promise<void> {
    const refused = tryAdmit(key);
    if (refused) return Promise.reject(refused);
    if (running < concurrency) {
      running++;
      return Promise.resolve();
    }
    if (isFull()) waiting.takeNewest(waiting.largest(key))?.giveUp('dropped');
    return new Promise((resolve, reject) => {
      const entry: Waiting = {
        start: () => {
          timers.clear(timer);
          resolve();
        },
        giveUp: (reason) => {
          timers.clear(timer);
          observe.hashRejected(reason);
          reject(refuse(key));
        },
      };
      // Tasks became slower after it was queued, or other keys had a turn first.
      const timer = timers.set(() => {
        waiting.remove(key, entry);
        entry.giveUp('timeout');
      }, queueTimeout);
      waiting.add(key, entry);
    });
  }

  function leave(): void {
    // Hand the place over instead of freeing it, so that no new task overtakes the waiting ones.
    const next = waiting.takeNext();
    if (next) next.start();
    else running--;
  }

  return {
    tryAdmit,
    running: () => running,
    waiting: () => waiting.size(),
    async run(key, task) {
      const came = clock.monotonic();
      await enter(key);
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
