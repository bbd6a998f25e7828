import type { FastifyBaseLogger } from 'fastify';
import type { Observe } from './domain/metrics/observe.ts';
import type { Task } from './domain/metrics/outcomes.ts';

/** Work that goes on beside the requests. */
export interface Background {
  /** Runs a task every so many milliseconds, never twice at once; a failure is logged once and tried again. */
  every(ms: number, name: Task, task: () => Promise<void>): void;
  /** No task starts after this, and what runs is waited for. */
  stop(): Promise<void>;
}

export function makeBackground(logger: FastifyBaseLogger, observe: Pick<Observe, 'taskEnded'>): Background {
  const timers: NodeJS.Timeout[] = [];
  const running = new Set<Promise<void>>();

  return {
    every(ms, name, task) {
      let isRunning = false;
      let isFailing = false;
      const run = async () => {
        isRunning = true;
        try {
          await task();
          observe.taskEnded(name, true);
          if (isFailing) logger.info({ task: name }, 'a background task works again');
          isFailing = false;
        } catch (error) {
          observe.taskEnded(name, false);
          if (!isFailing) logger.warn({ task: name, reason: reasonOf(error) }, 'a background task failed');
          isFailing = true;
        }
        isRunning = false;
      };
      const tick = () => {
        if (isRunning) return;
        const work = run().finally(() => running.delete(work));
        running.add(work);
      };
      timers.push(setInterval(tick, ms).unref());
    },
    async stop() {
      timers.forEach(clearInterval);
      await Promise.all(running);
    },
  };
}

/** An outage says only that it is one: what caused it is worth more. */
export function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.name}${codeOf(cause)}` : message;
}

function codeOf(error: Error): string {
  const { code } = error as NodeJS.ErrnoException;
  return code === undefined ? '' : ` ${code}`;
}
