import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/config.ts';
import type { BoundedQueues } from '../domain/limits/bounded.ts';
import { makeBudget } from '../domain/limits/budget.ts';
import type { LimitAttempt } from '../domain/limits/limit-attempts.ts';
import type { Clock } from '../domain/clock.ts';
import { makeResetRequests } from '../domain/mails/reset-requests.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeMailStore } from '../infra/postgres/wanted-mails.ts';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';

interface MailsParts {
  config: Pick<Config, 'PASSWORD_RESET_TTL' | 'EMAIL_VERIFICATION_TTL' | 'RATE_LIMIT_NETWORK'>;
  postgres: Pick<Postgres, 'prisma' | 'probe' | 'inLane'>;
  limitAttempt: LimitAttempt;
  boundedQueue: BoundedQueues;
  clock: Clock;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: Pick<FastifyBaseLogger, 'error'>;
}

/** Interval of the look-ups, in milliseconds. */
const INTERVAL = 1000;
/** Names that each looks up. */
const PER_TURN = 50;

/** The wanted mails, and the requests that wait for their look-up. */
export function makeMailParts(parts: MailsParts) {
  const { config, postgres, limitAttempt, boundedQueue, clock, tasks, logger } = parts;
  const mails = makeMailStore(postgres, {
    reset: config.PASSWORD_RESET_TTL,
    verification: config.EMAIL_VERIFICATION_TTL,
  });
  const resetRequests = makeResetRequests({
    mails,
    budget: makeBudget(limitAttempt, {
      network: { limit: 'reset_network', allowance: config.RATE_LIMIT_NETWORK },
    }),
    boundedQueue,
    clock,
  });
  let oldest = 0;
  tasks.every(INTERVAL, 'wanted mails', async () => {
    try {
      await resetRequests.work(PER_TURN);
    } finally {
      oldest = await mails.oldest();
    }
  });
  return {
    mails,
    resetRequests,
    /** For the metrics, in milliseconds. */
    oldest: () => oldest,

    /** Looks up what waits, once the background tasks have stopped. */
    async finish(): Promise<void> {
      await resetRequests.work().catch((error: unknown) => {
        const requests = resetRequests.size();
        logger.error({ requests, reason: (error as Error).message }, 'requests for a reset are lost');
      });
    },
  };
}
