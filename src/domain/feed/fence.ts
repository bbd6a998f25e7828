import type { Clock } from '../clock.ts';
import type { FeedPosition } from './ports.ts';

/** What a store says of the feed. Times in milliseconds by the store's clock. */
export interface FeedLook {
  epoch: string;
  last: number;
  /** The last full renewal, or the epoch, did not begin before. */
  renewed: number;
  now: number;
}

interface FencePorts {
  /** @throws AuthError `unavailable` */
  look: () => Promise<FeedLook>;
  /** Asks whoever holds the lease for a full renewal, unless somebody has asked within the last second. */
  ask: () => Promise<void>;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  pause: (ms: number) => Promise<unknown>;
}

/** A look, and between which two times of our monotonic clock it was. */
interface Timed extends FeedLook {
  before: number;
  after: number;
}

interface Waiter {
  /** The first look that began after the call. */
  start: Timed | null;
  finish: (end: FeedPosition) => void;
}

/** Milliseconds between two looks. */
const INTERVAL = 250;
/** By how much the store's clock and ours may disagree about a time between two looks, in milliseconds. */
const LEEWAY = 100;

/**
 * Waits until the feed has been renewed in full from the record: a renewal that began after the call has ended. A master
 * that was cut off lacks what was published elsewhere until a replica renews there. All who wait share the looks.
 */
export function makeFence({ look, ask, clock, pause }: FencePorts) {
  const waiting = new Set<Waiter>();
  let isPolling = false;
  let failure: unknown = null;

  async function poll(): Promise<void> {
    if (isPolling) return;
    isPolling = true;
    while (waiting.size > 0) {
      // Whoever comes during this look needs a later one.
      const present = [...waiting];
      const before = clock.monotonic();
      try {
        const seen = { ...(await look()), before, after: clock.monotonic() };
        failure = null;
        for (const waiter of present) advance(waiter, seen);
        // Also a full store answers. Then it takes until the next full renewal.
        if (waiting.size > 0) await ask().catch(() => undefined);
      } catch (error) {
        failure = error;
      }
      if (waiting.size > 0) await pause(INTERVAL);
    }
    isPolling = false;
  }

  function advance(waiter: Waiter, seen: Timed): void {
    const { start } = waiter;
    // Another epoch is another server, or a renewal too late: what the two say of time cannot be compared.
    if (!start || start.epoch !== seen.epoch || hasJumped(start, seen)) waiter.start = seen;
    else if (seen.renewed > start.now + LEEWAY) waiter.finish({ epoch: seen.epoch, seq: seen.last });
  }

  /** @returns as `RevocationFeed.fence` says. */
  return function fence(signal: AbortSignal): Promise<FeedPosition | null> {
    if (signal.aborted) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        start: null,
        finish(end) {
          waiting.delete(waiter);
          signal.removeEventListener('abort', giveUp);
          resolve(end);
        },
      };
      function giveUp(): void {
        waiting.delete(waiter);
        if (failure === null) resolve(null);
        // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- what the store threw
        else reject(failure);
      }
      signal.addEventListener('abort', giveUp, { once: true });
      waiting.add(waiter);
      void poll();
    });
  };
}

/** Whether the store's clock was set between two looks. */
function hasJumped(start: Timed, seen: Timed): boolean {
  const passed = seen.now - start.now;
  return passed < seen.before - start.after - LEEWAY || passed > seen.after - start.before + LEEWAY;
}
