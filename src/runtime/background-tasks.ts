import type { FastifyBaseLogger } from 'fastify';
import { reasonOf } from '../domain/errors.ts';
import type { Observe } from '../telemetry/observe.ts';
import type { Task } from '../telemetry/outcomes.ts';

/** Periodic work in the background. */
export interface BackgroundTasks {
  /** Runs a task every `ms` milliseconds, never twice at once. A failing task is retried, and logged once. */
  every(ms: number, name: Task, task: () => Promise<void>): void;
  /** Starts no more tasks, and waits for those that are running. */
  stop(): Promise<void>;
}

export function makeBackgroundTasks(
  logger: FastifyBaseLogger,
  observe: Pick<Observe, 'taskEnded'>,
): BackgroundTasks {
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
