import type { Clock } from '../domain/clock.ts';
import type { ErrorCode } from '../domain/errors.ts';

/** Seconds to add to the Retry-After of a refusal. */
export type RetrySpread = (code: ErrorCode) => number;

/** Refusals of one cause that meet all callers alike. A `rate_limited` or a `refresh_overlap` is one caller's own. */
const SHARED: readonly ErrorCode[] = ['unavailable', 'overloaded'];

/** Refusals a second whose retries may all return in the same second. */
const CALM = 100;

/** Seconds over which retries are spread at most: the default of REFRESH_RETRY_WINDOW, in which retries are cheapest. */
const LONGEST = 10;

/**
 * Spreads the retries after an outage: without it, all refused clients would return together, again and again. The more
 * refusals in the present second or the one before, the longer the spread, so a short failover costs no one more.
 * Each replica counts its own.
 * @param random from 0 to below 1.
 */
export function makeRetrySpread(clock: Pick<Clock, 'monotonic'>, random: () => number): RetrySpread {
  let second = 0;
  let count = 0;
  let previous = 0;
  return (code) => {
    if (!SHARED.includes(code)) return 0;
    const now = Math.floor(clock.monotonic() / 1000);
    if (now !== second) {
      previous = now === second + 1 ? count : 0;
      count = 0;
      second = now;
    }
    count++;
    const spread = Math.min(LONGEST, Math.ceil(Math.max(previous, count) / CALM));
    return Math.floor(random() * spread);
  };
}
