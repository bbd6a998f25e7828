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
   * @param whileHeld runs in its place while this replica may not serve; nothing by default, because tasks change stores.
   */
  every(ms: number, name: Task | null, task: Work, whileHeld?: Work): void;
  start(): void;
  /** Starts no more tasks, and waits for those that are running. */
  stop(): Promise<void>;
}

type Work = () => Promise<void> | void;

/** @param standing a replica that disagrees with its installation changes neither store. */
export function makeBackgroundTasks(
  logger: Pick<FastifyBaseLogger, 'info' | 'warn'>,
  observe: Pick<Observe, 'taskEnded'>,
  standing: Standing,
): BackgroundTasks {
  const ticks: [ms: number, tick: () => void][] = [];
  const timers: NodeJS.Timeout[] = [];
  const running = new Set<Promise<void>>();

  return {
    every(ms, name, task, whileHeld) {
      let isRunning = false;
      let isFailing = false;
      const run = async (work: Work) => {
        isRunning = true;
        try {
          await work();
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
        const work = standing.objection() === null ? task : whileHeld;
        if (isRunning || !work) return;
        const done = run(work).finally(() => running.delete(done));
        running.add(done);
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
