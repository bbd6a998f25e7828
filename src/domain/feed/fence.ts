import type { FeedPosition, RenewalMark } from './ports.ts';

/** What a store says of the feed. */
export interface FeedLook {
  epoch: string;
  last: number;
  /** The number of the full renewal that this look asked for; null if it asked for none. */
  asked: number | null;
  /** A full renewal has ended that knew of all that had been asked for, up to this number, before it began. */
  served: number;
}

interface FencePorts {
  /** @param isAsking whether to ask whoever holds the lease for a full renewal. @throws AuthError `unavailable` */
  look: (isAsking: boolean) => Promise<FeedLook>;
  /** Resolves after `ms` milliseconds. */
  pause: (ms: number) => Promise<unknown>;
}

interface Waiter {
  /** What was asked for it, after the call. */
  mark: RenewalMark | null;
  finish: (end: FeedPosition) => void;
}

/** Milliseconds between two looks. */
const INTERVAL = 250;

/**
 * Waits until the feed has been renewed in full from the record: a renewal that began after the call has ended. A master
 * that was cut off lacks what was published elsewhere until a replica renews there. All who wait share the looks.
 *
 * Whoever waits asks for a number, and the renewal writes which number it had read before it read the record. Times would
 * not do: a call that the client gave up may still arrive much later, and a clock may be set.
 */
export function makeFence({ look, pause }: FencePorts) {
  const waiting = new Set<Waiter>();
  let isPolling = false;
  let failure: unknown = null;

  async function poll(): Promise<void> {
    if (isPolling) return;
    isPolling = true;
    while (waiting.size > 0) {
      // Whoever comes during this look needs a later number.
      const present = [...waiting];
      try {
        const seen = await look(present.some(({ mark }) => mark === null));
        failure = null;
        for (const waiter of present) advance(waiter, seen);
      } catch (error) {
        failure = error;
      }
      if (waiting.size > 0) await pause(INTERVAL);
    }
    isPolling = false;
  }

  function advance(waiter: Waiter, { epoch, last, asked, served }: FeedLook): void {
    // In another epoch nobody knows of the number.
    if (waiter.mark?.epoch !== epoch) waiter.mark = asked === null ? null : { epoch, asked };
    else if (served >= waiter.mark.asked) waiter.finish({ epoch, seq: last });
  }

  /** @returns as `RevocationFeed.fence` says. */
  return function fence(signal: AbortSignal): Promise<FeedPosition | null> {
    if (signal.aborted) return Promise.resolve(null);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        mark: null,
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
