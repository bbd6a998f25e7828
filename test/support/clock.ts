import type { Clock } from '../../src/domain/clock.ts';

/** A clock that a test moves; all of its faces go together. */
export function aClock() {
  const start = 1_795_000_000_000;
  let now = start;
  const clock = {
    now: () => now,
    monotonic: () => now - start,
    /** The same time for a state store: it goes on by a microsecond whenever it is asked. */
    micros: () => now * 1000 + ++asked,
    pass: (ms: number) => {
      now += ms;
    },
  };
  let asked = 0;
  return clock satisfies Clock;
}
