import type { Clock } from './domain/clock.ts';

/** How late the event loop is: for about so long waits whatever comes now. */
export interface LagGauge {
  /** To be called every `interval` milliseconds. */
  look(): void;
  /** Milliseconds. */
  lag(): number;
}

/** One long pause (the start, a collection of garbage) is no load: of so many looks the one in the middle counts. */
const LOOKS = 5;

/** Measures by how much a timer goes off too late. @param interval between two looks, in milliseconds. */
export function makeLagGauge(interval: number, clock: Pick<Clock, 'monotonic'>): LagGauge {
  const late = Array.from({ length: LOOKS }, () => 0);
  let due = clock.monotonic() + interval;
  let lag = 0;

  return {
    look() {
      const now = clock.monotonic();
      late.shift();
      late.push(Math.max(0, now - due));
      lag = [...late].sort((a, b) => a - b)[LOOKS >> 1] ?? 0;
      due = now + interval;
    },
    lag: () => lag,
  };
}
