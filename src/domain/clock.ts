import { AuthError } from './errors.ts';

/** The process's clocks, passed in so that tests decide what time it is. */
export interface Clock {
  /** Wall clock, in milliseconds since 1970. */
  now(): number;
  /** A clock that never jumps, in milliseconds since some start; only differences mean anything. */
  monotonic(): number;
  /** False while `now` differs from the time of every store that could be asked (ADR 45). */
  isTrusted(): boolean;
}

/** The refusal of what our clock says is over: by the right time it may not be, so a wrong clock only asks to retry. */
export function over(clock: Pick<Clock, 'isTrusted'>, code: 'invalid_token' | 'login_too_old'): AuthError {
  if (!clock.isTrusted()) return new AuthError('unavailable');
  return new AuthError(code, code === 'invalid_token' ? { reason: 'expired' } : {});
}
