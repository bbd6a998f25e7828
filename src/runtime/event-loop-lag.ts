import type { Clock } from '../domain/clock.ts';

/** How late the event loop is: how long new work waits, roughly. */
export interface LagGauge {
  /** To be called every `interval` milliseconds. */
  sample: () => void;
  /** Milliseconds. */
  lag: () => number;
}

/**
 * The gauge reports the median of five samples: one long pause (the start, garbage collection) does not count as load.
 */
const SAMPLES = 5;

/** Measures how late a timer fires. @param interval between samples, in milliseconds. */
export function makeLagGauge(interval: number, clock: Pick<Clock, 'monotonic'>): LagGauge {
  const late = Array.from({ length: SAMPLES }, () => 0);
  let due = clock.monotonic() + interval;
  let lag = 0;

  return {
    sample() {
      const now = clock.monotonic();
      late.shift();
      late.push(Math.max(0, now - due));
      lag = [...late].sort((a, b) => a - b)[SAMPLES >> 1] ?? 0;
      due = now + interval;
    },
    lag: () => lag,
  };
}
