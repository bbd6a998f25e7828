import type { Clock } from '../domain/clock.ts';
import type { ErrorCode } from '../domain/errors.ts';

/** Seconds to add to the Retry-After of a refusal. */
export type RetrySpread = (code: ErrorCode) => number;

/** Seconds over which retries are spread at most. */
const LONGEST = 10;

/** Refusals a second whose retries may all return in the same second. */
const CALM = 100;

interface SpreadOptions {
  clock: Pick<Clock, 'monotonic'>;
  /** From 0 to below 1. */
  random: () => number;
  /** REFRESH_RETRY_WINDOW in seconds; 0 if it is off. */
  retryWindow: number;
}

/**
 * Spreads the retries after an outage: without it, all refused clients would return together, again and again. Only
 * `unavailable` meets all callers alike, so nothing else is spread or counted. The more refusals in the present second
 * or the one before, the longer the spread. Each replica counts its own.
 *
 * The spread takes at most half of the retry window. A client whose answer was lost, and whose session another tab
 * uses, must be back within that window: after it, its retry would look like a theft.
 */
export function makeRetrySpread({ clock, random, retryWindow }: SpreadOptions): RetrySpread {
  const longest = retryWindow === 0 ? LONGEST : Math.min(LONGEST, Math.floor(retryWindow / 2));
  let second = 0;
  let count = 0;
  let previous = 0;
  return (code) => {
    if (code !== 'unavailable') return 0;
    const now = Math.floor(clock.monotonic() / 1000);
    if (now !== second) {
      previous = now === second + 1 ? count : 0;
      count = 0;
      second = now;
    }
    count++;
    const spread = Math.min(longest, Math.ceil(Math.max(previous, count) / CALM));
    return Math.floor(random() * spread);
  };
}
