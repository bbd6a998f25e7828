import { AuthError } from './errors.ts';

/** By how many seconds the clocks of replicas and other verifiers may differ. */
export const CLOCK_TOLERANCE = 5;

/** Whether a token with this `exp`, in seconds, has expired. @param now milliseconds since 1970. */
export function hasPassed(expiresAt: number, now: number): boolean {
  return now >= (expiresAt + CLOCK_TOLERANCE) * 1000;
}

/** The process's clocks, passed in so that tests decide what time it is. */
export interface Clock {
  /** Wall clock, in milliseconds since 1970. */
  now(): number;
  /** A clock that never jumps, in milliseconds since some start; only differences mean anything. */
  monotonic(): number;
  /** False while `now` differs from the time of every store that could be asked (ADR 3). */
  isTrusted(): boolean;
}

/** The process's timers, passed in for the same reason. */
export interface Timers {
  set(callback: () => void, ms: number): unknown;
  clear(timer: unknown): void;
}

/** The refusal of what our clock says is over: by the right time it may not be, so a wrong clock only asks to retry. */
export function expiredError(
  clock: Pick<Clock, 'isTrusted'>,
  code: 'invalid_token' | 'login_too_old' | 'invalid_login_token' | 'invalid_passkey',
): AuthError {
  if (!clock.isTrusted()) return new AuthError('unavailable');
  return new AuthError(code, code === 'invalid_token' ? { reason: 'expired' } : {});
}
