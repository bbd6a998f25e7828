import { callListener } from './call-listener.ts';
import { unavailable, type VerifierError } from './verifier-error.ts';

/** Both in milliseconds. */
export interface VerifierClock {
  /** Since 1970; may jump. */
  now(): number;
  /** Never goes back; stands still while the machine is suspended. */
  monotonic(): number;
}

export type Moment = Readonly<Record<keyof VerifierClock, number>>;

export function momentOf(clock: VerifierClock): Moment {
  return { now: clock.now(), monotonic: clock.monotonic() };
}

/**
 * Milliseconds. The wall clock includes the time for which a machine was suspended; the monotonic clock never goes
 * back.
 */
export function elapsedSince(earlier: Moment, clock: VerifierClock): number {
  const { now, monotonic } = momentOf(clock);
  return Math.max(now - earlier.now, monotonic - earlier.monotonic);
}

export const SYSTEM_CLOCK: VerifierClock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
};

/**
 * What an answer says about Latchkey's clock, in milliseconds since 1970.
 * @param date to the second: the time by that clock when it answered.
 * @param sent when the request was sent, and @param received when its answer arrived, by ours.
 */
export type OnDate = (date: number, sent: number, received: number) => void;

/** Seconds: a `Date` is cut to the second, and a server may renew it once a second. */
const ROUNDING = 2;

/**
 * Reports a clock that differs from Latchkey's by more than the tolerance, and not again before it has been
 * right. No token is refused for it, because a token whose times suit both clocks is good.
 */
export function makeClockCheck(clockTolerance: number, report: (error: VerifierError) => void): OnDate {
  let isReported = false;
  return (date, sent, received) => {
    const [ahead, behind] = [(sent - date) / 1000, (date - received) / 1000];
    const isWrong = Math.max(ahead, behind) > clockTolerance + ROUNDING;
    if (isWrong && !isReported) {
      const difference =
        ahead > behind ? `${Math.round(ahead)} s ahead of` : `${Math.round(behind)} s behind`;
      callListener(
        report,
        unavailable(
          'clock',
          `this machine's clock is ${difference} Latchkey's: set it right, for tokens expire by it`,
        ),
      );
    }
    isReported = isWrong;
  };
}
