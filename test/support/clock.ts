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

const CLOCKS = ['wall', 'monotonic'] as const;

/**
 * Moves the clocks of this process: everything in the app reads them.
 * @returns moves both by these milliseconds, as time that passes does, or one alone: a machine that sleeps, or whose
 * clock is set, moves the wall clock only.
 */
export function aMovedClock(t: Test): (ms: number, which?: (typeof CLOCKS)[number]) => void {
  const [now, monotonic] = [Date.now, performance.now.bind(performance)];
  const shift = { wall: 0, monotonic: 0 };
  Date.now = () => now() + shift.wall;
  performance.now = () => monotonic() + shift.monotonic;
  t.teardown(() => {
    Date.now = now;
    performance.now = monotonic;
  });
  return (ms, which) => {
    for (const each of which ? [which] : CLOCKS) shift[each] += ms;
  };
}
