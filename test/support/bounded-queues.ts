import { makeBoundedQueues } from '../../src/domain/limits/bounded.ts';
import { aClock } from './clock.ts';
import { someTimers } from './timers.ts';

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
  return { boundedQueue, patience: 5000, pool: 16, dropped, goOff, waiting };
}
