import type { Clock } from '../../src/domain/clock.ts';

/** A clock that the test moves. Wall time and monotonic time move together. */
export function aClock() {
  const start = 1_795_000_000_000;
  let now = start;
  const clock = {
    now: () => now,
    monotonic: () => now - start,
    /** The same time for a state store: each call adds a microsecond. */
    micros: () => now * 1000 + ++asked,
    pass: (ms: number) => {
      now += ms;
    },
  };
  let asked = 0;
  return clock satisfies Clock;
}
