import type { AttemptSlots } from '../../domain/limits/ports.ts';

interface Attempt {
  at: number;
  slot: string;
}

/**
 * Replaces Redis in the embedded default: the same contract over a map, for one process.
 * @param now milliseconds.
 */
export function makeMemoryAttemptSlots(now: () => number): AttemptSlots & { sweep(): void } {
  const counters = new Map<string, { attempts: Attempt[]; window: number }>();
  let taken = 0;

  const living = (counter: string, window: number) =>
    (counters.get(counter)?.attempts ?? []).filter(({ at }) => at + window > now());

  function keep(counter: string, attempts: Attempt[], window: number): void {
    if (attempts.length > 0) counters.set(counter, { attempts, window });
    else counters.delete(counter);
  }

  return {
    reserve: async (counter, { count, seconds }) => {
      const window = seconds * 1000;
      const attempts = living(counter, window);
      const oldest = attempts[attempts.length - count];
      if (oldest) return { freeIn: oldest.at + window - now() };
      const slot = String(++taken);
      keep(counter, [...attempts, { at: now(), slot }], window);
      return { slot, earlier: attempts.length };
    },

    release: async (counter, slot) => {
      const found = counters.get(counter);
      if (!found) return;
      keep(
        counter,
        found.attempts.filter((attempt) => attempt.slot !== slot),
        found.window,
      );
    },

    /** Deletes the counters whose windows have passed. */
    sweep() {
      for (const [counter, { window }] of counters) keep(counter, living(counter, window), window);
    },
  };
}
