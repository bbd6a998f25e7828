import type { Test } from 'tap';
import type { Clock } from '../../src/domain/clock.ts';

/** A clock that the test moves. Wall time and monotonic time move together. */
export function aClock() {
  const start = 1_795_000_000_000;
  let now = start;
  let isTrusted = true;
  const clock = {
    now: () => now,
    monotonic: () => now - start,
    isTrusted: () => isTrusted,
    /** From now on the stores contradict it. */
    distrust: () => {
      isTrusted = false;
    },
    /** The same time for a state store: each call adds a microsecond. */
    micros: () => now * 1000 + ++asked,
    pass: (ms: number) => {
      now += ms;
    },
  };
  let asked = 0;
  return clock satisfies Clock;
}

/** Moves both clocks of this process: everything in the app reads them. */
export function aMovedClock(t: Test): (ms: number) => void {
  const [now, monotonic] = [Date.now, performance.now.bind(performance)];
  let shift = 0;
  Date.now = () => now() + shift;
  performance.now = () => monotonic() + shift;
  t.teardown(() => {
    Date.now = now;
    performance.now = monotonic;
  });
  return (ms) => {
    shift += ms;
  };
}
