import type { Clock, Timers } from '../domain/clock.ts';

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  isTrusted: () => true,
};

/** They do not keep the process running. */
export const systemTimers: Timers = {
  set: (callback, ms) => setTimeout(callback, ms).unref(),
  clear: (timer) => {
    clearTimeout(timer as NodeJS.Timeout);
  },
};
