import type { Timers } from '../../src/domain/clock.ts';

/** Timers that fire when a test says so. */
export function someTimers() {
  const set = new Map<number, { callback: () => void; ms: number }>();
  let last = 0;
  const timers: Timers = {
    set: (callback, ms) => {
      set.set(++last, { callback, ms });
      return last;
    },
    clear: (timer) => set.delete(timer as number),
  };
  const goOff = () => {
    for (const [timer, { callback }] of Array.from(set)) {
      set.delete(timer);
      callback();
    }
  };
  return { timers, goOff, waiting: () => [...set.values()].map(({ ms }) => ms) };
}
