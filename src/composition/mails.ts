import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/config.ts';
import type { BoundedQueues } from '../domain/limits/bounded.ts';
import { makeBudget } from '../domain/limits/budget.ts';
import type { LimitAttempt } from '../domain/limits/limit-attempts.ts';
import type { Clock } from '../domain/clock.ts';
import { makeResetRequests } from '../domain/mails/reset-requests.ts';
import { MAIL_KINDS, type MailKind } from '../domain/mail-kinds.ts';
import type { Observe } from '../domain/metrics/observe.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeMailStore } from '../infra/postgres/wanted-mails.ts';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';

interface MailsParts {
  config: Pick<
    Config,
    | 'PASSWORD_RESET_TTL'
    | 'INVITATION_TTL'
    | 'EMAIL_VERIFICATION_TTL'
    | 'RATE_LIMIT_NETWORK'
    | 'RATE_LIMIT_ACCOUNT'
  >;
  postgres: Pick<Postgres, 'prisma' | 'probe' | 'inLane'>;
  limitAttempt: LimitAttempt;
  boundedQueue: BoundedQueues;
  clock: Clock;
  observe: Pick<Observe, 'mail'>;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: Pick<FastifyBaseLogger, 'error'>;
}

/** Interval of the look-ups, in milliseconds. */
const INTERVAL = 1000;
/** Names that each looks up. */
const PER_TURN = 50;
/** How often overdue mails are given up, in milliseconds. */
const DROP_INTERVAL = 60_000;

/** The wanted mails, and the requests that wait for their look-up. */
export function makeMailParts(parts: MailsParts) {
  const { config, postgres, limitAttempt, boundedQueue, clock, observe, tasks, logger } = parts;
  const mails = makeMailStore(postgres, {
    password_reset: config.PASSWORD_RESET_TTL,
    invitation: config.INVITATION_TTL,
    email_verification: config.EMAIL_VERIFICATION_TTL,
    email_change: config.EMAIL_VERIFICATION_TTL,
  });
  const resetRequests = makeResetRequests({
    mails,
    budget: makeBudget(limitAttempt, {
      user: { limit: 'reset_account', allowance: config.RATE_LIMIT_ACCOUNT },
      network: { limit: 'reset_network', allowance: config.RATE_LIMIT_NETWORK },
    }),
    boundedQueue,
    clock,
  });
  let oldest = Object.fromEntries(MAIL_KINDS.map((kind) => [kind, 0])) as Record<MailKind, number>;
  let dropDue = -Infinity;
  tasks.every(INTERVAL, 'wanted mails', async () => {
    try {
      await resetRequests.work(PER_TURN);
    } finally {
      oldest = await mails.oldest();
    }
    if (clock.monotonic() < dropDue) return;
    for (const kind of await mails.dropOverdue()) observe.mail(kind, 'dropped');
    dropDue = clock.monotonic() + DROP_INTERVAL;
  });
  return {
    mails,
    resetRequests,
    /** For the metrics: how long the oldest mail of each kind has waited, in milliseconds. */
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
