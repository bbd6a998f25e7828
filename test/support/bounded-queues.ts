import type { Timers } from '../../src/domain/clock.ts';
import { makeBoundedQueues } from '../../src/domain/limits/bounded.ts';
import { aClock } from './clock.ts';

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

/** To be spread into what makes queues. `dropped` counts what they dropped. */
export function someQueues(clock: Pick<ReturnType<typeof aClock>, 'monotonic'> = aClock()) {
  const { timers, goOff, waiting } = someTimers();
  const dropped: Partial<Record<string, number>> = {};
  const boundedQueue = makeBoundedQueues({
    clock,
    timers,
    observe: {
      queueDropped: (queue) => {
        dropped[queue] = (dropped[queue] ?? 0) + 1;
      },
    },
  });
  return { boundedQueue, patience: 5000, dropped, goOff, waiting };
}
