import type { FastifyBaseLogger } from 'fastify';
import { reasonOf } from '../domain/errors.ts';
import type { Standing } from '../domain/standing.ts';
import type { Observe } from '../telemetry/observe.ts';
import type { Task } from '../telemetry/outcomes.ts';

/** The process's one scheduler of periodic work. */
export interface BackgroundTasks {
  /**
   * Adds a task that runs every `ms` milliseconds once all are started, never twice at once. A failing task is retried,
   * and logged once.
   * @param name null for a step that the metrics leave out: it cannot fail, or reports its failures itself.
   */
  every(ms: number, name: Task | null, task: () => Promise<void> | void): void;
  start(): void;
  /** Starts no more tasks, and waits for those that are running. */
  stop(): Promise<void>;
}

export function makeBackgroundTasks(
  logger: Pick<FastifyBaseLogger, 'info' | 'warn'>,
  observe: Pick<Observe, 'taskEnded'>,
): BackgroundTasks {
  const ticks: [ms: number, tick: () => void][] = [];
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
          if (name !== null) observe.taskEnded(name, true);
          if (isFailing) logger.info({ task: name }, 'a background task works again');
          isFailing = false;
        } catch (error) {
          if (name !== null) observe.taskEnded(name, false);
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
      ticks.push([ms, tick]);
    },
    start() {
      for (const [ms, tick] of ticks) timers.push(setInterval(tick, ms).unref());
    },
    async stop() {
      timers.forEach(clearInterval);
      await Promise.all(running);
    },
  };
}

/** Tasks that change a store: they pause while this replica may not serve. */
export function whileServing(
  tasks: Pick<BackgroundTasks, 'every'>,
  standing: Standing,
): Pick<BackgroundTasks, 'every'> {
  return {
    every: (ms, name, task) => {
      tasks.every(ms, name, () => (standing.objection() === null ? task() : undefined));
    },
  };
}
