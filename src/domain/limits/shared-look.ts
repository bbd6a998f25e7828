import type { Clock } from '../clock.ts';

interface SharedLookOptions {
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
}

/** Minimum time between looks that strangers cause, in milliseconds. */
const MIN_INTERVAL = 1000;

/** A look at a store that a stranger's request may cause. */
export interface SharedLook {
  /** Looks now, as a task does. */
  look: () => Promise<void>;
  /**
   * Resolves once a look that began after the call has ended. Concurrent calls share one, at most one a second, and none
   * begins before the last one has ended: as long as the store hangs, strangers hold one connection.
   */
  fresh: () => Promise<void>;
}

export function makeSharedLook(look: () => Promise<void>, { clock, sleep }: SharedLookOptions): SharedLook {
  let lastBegun = -MIN_INTERVAL;
  let last: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | null = null;

  async function waitForTurn(): Promise<void> {
    await last;
    const wait = lastBegun + MIN_INTERVAL - clock.monotonic();
    if (wait > 0) await sleep(wait);
  }

  function begin(): Promise<void> {
    lastBegun = clock.monotonic();
    const looking = look();
    last = looking.catch(() => undefined);
    return looking;
  }

  return {
    look: begin,
    fresh() {
      next ??= waitForTurn().then(() => {
        // Later calls may be about records that this look does not see: they need another one.
        next = null;
        return begin();
      });
      return next;
    },
  };
}
