import type { Clock, Timers } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { makeFifo, makeRoundRobin, waitForTurn, type Waiter } from '../limits/fair-queue.ts';
import type { Observe } from '../metrics/observe.ts';

export interface BulkheadOptions {
  /** How many run at once. */
  concurrency: number;
  /** How many may wait. */
  queue: number;
  /** How long one may wait, in milliseconds. */
  queueTimeout: number;
}

/**
 * Hashes are divided equally among these, as far as each has work: callers that have shown something of the account or
 * service (a device that the account knows, a token, a secret), logins of others, and signups.
 */
export type Share = 'known' | 'login' | 'signup';

/** The caller, by whom hashes of one share take turns: networks, then the addresses of a network. */
export type Turn = readonly [network: string, address: string];

/** Weight of the newest task in the mean duration: the mean follows a change of load within a few tasks. */
const WEIGHT = 0.2;

export interface Bulkhead {
  /** @throws AuthError `overloaded` */
  run<Result>(share: Share, turn: Turn, task: () => Promise<Result>): Promise<Result>;
  /**
   * Whether a new task would be refused now, before the work that leads to it. A refusal is counted.
   *
   * A login may turn out to be from a device that the account knows. So it is admitted like one, unless a login of its
   * address waits already: a look-up costs far less than a hash, and strangers must not keep owners out.
   * @returns the refusal, or null.
   */
  tryAdmit: (share: Share, turn: Turn) => AuthError | null;
  /** How many tasks run, and how many wait. */
  running: () => number;
  waiting: () => number;
}

/**
 * Bounds how much hashing goes on at once. Each hash takes 128 MiB and a thread of the pool that DNS look-ups share:
 * unbounded logins would exhaust the memory or stall reconnects. If a task would have to wait for too long, by the
 * duration of recent tasks, it is refused at once: its client would give up before.
 *
 * Waiting tasks take turns by share, network and address. So a task that is the first of its address and network waits
 * for one task of each other share, network and address at most. If the queue is full, a new task replaces the newest
 * of the share, network and address that has most. No running task is interrupted.
 */
export function makeBulkhead(
  { concurrency, queue, queueTimeout }: BulkheadOptions,
  timers: Timers,
  clock: Pick<Clock, 'monotonic'>,
  observe: Pick<Observe, 'hashBegan' | 'hashEnded' | 'hashRejected'>,
): Bulkhead {
  const waiting = makeRoundRobin(() => makeRoundRobin(() => makeRoundRobin(() => makeFifo<Waiter>())));
  let running = 0;
  /** Moving average of a task's duration, in milliseconds; 0 until the first one has ended. */
  let duration = 0;

  /** Expected time until the task at this place starts, in milliseconds. Places count from 1. */
  const waitOf = (place: number) => (place * duration) / concurrency;
  /** After this time the tasks ahead of a new one of this path are done, if no others arrive. */
  const refuse = (path: readonly string[]) => overloaded(waitOf(waiting.placeOf(path) - 1));
  const isFull = () => waiting.size() >= queue;

  function refusalOf(path: readonly string[]): AuthError | null {
    if (running < concurrency) return null;
    const hasNoRoom = isFull() && !waiting.loserTo(path);
    if (!hasNoRoom && waitOf(waiting.placeOf(path)) <= queueTimeout) return null;
    // A request that is refused here never reaches `run`, so each refusal counts once.
    observe.hashRejected(hasNoRoom ? 'full' : 'wait');
    return refuse(path);
  }

  function enter(path: readonly string[]): Promise<void> {
    const refused = refusalOf(path);
    if (refused) return Promise.reject(refused);
    if (running < concurrency) {
      running++;
      return Promise.resolve();
    }
    // Stryker disable next-line OptionalChaining: without a loser it was refused above
    if (isFull()) waiting.loserTo(path)?.giveUp('dropped');
    // It may wait for too long all the same: tasks become slower, or others have a turn first.
    return waitForTurn(waiting, path, {
      timers,
      patience: queueTimeout,
      refusalOf: (reason) => {
        observe.hashRejected(reason);
        return refuse(path);
      },
    });
  }

  function leave(): void {
    // Hand the place over instead of freeing it, so that no new task overtakes the waiting ones.
    const next = waiting.takeNext();
    if (next) next.start();
    else running--;
  }

  return {
    tryAdmit(share, turn) {
      const mayBeKnown = share === 'login' && waiting.size([share, ...turn]) === 0;
      return refusalOf([mayBeKnown ? 'known' : share, ...turn]);
    },
    running: () => running,
    waiting: () => waiting.size(),
    async run(share, turn, task) {
      const came = clock.monotonic();
      await enter([share, ...turn]);
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
