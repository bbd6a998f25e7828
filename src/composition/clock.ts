import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/config.ts';
import type { Clock } from '../domain/clock.ts';
import { CLOCK_TOLERANCE } from '../domain/clock.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { postgresNow } from '../infra/postgres/inspect.ts';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { makeClockWatch } from '../runtime/clock-watch.ts';
import { systemClock } from '../runtime/system-clock.ts';
import type { OpenedTokenStates } from './open-token-states.ts';

interface ClockParts {
  config: Config;
  postgres: Postgres;
  tokenStates: Pick<OpenedTokenStates, 'times'>;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Interval between comparisons, in milliseconds. */
const INTERVAL = 1000;

/** The process's clock, which knows whether the stores contradict it. Embedded stores share it, so they are not asked. */
export function makeClock({ config, postgres, tokenStates, tasks, logger }: ClockParts) {
  const redis = { name: 'Redis', ask: () => tokenStates.times() } as const;
  // Like the probes of readiness, on a connection that a full pool does not hold up.
  const database = { name: 'PostgreSQL', ask: async () => [await postgresNow(postgres.probe)] } as const;
  const watch = makeClockWatch({
    others: config.DATABASE_URL === undefined ? [redis] : [redis, database],
    clock: systemClock,
    leeway: CLOCK_TOLERANCE,
    logger,
  });
  tasks.every(INTERVAL, 'clock check', watch.compare);
  const clock: Clock = { ...systemClock, isTrusted: watch.isTrusted };
  return { clock, watch };
}
