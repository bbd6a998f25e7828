import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import type { Config } from '../config/config.ts';
import type { Clock } from '../domain/clock.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeBulkhead, type Bulkhead } from '../domain/passwords/bulkhead.ts';
import { makeCheckPassword, type CheckPassword } from '../domain/passwords/check-password.ts';
import { makeHashCosts } from '../domain/passwords/hash-costs.ts';
import type { PasswordHasher } from '../domain/passwords/ports.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { makeLagGauge } from '../runtime/event-loop-lag.ts';
import { systemTimers } from '../runtime/system-clock.ts';
import type { LoadSheddingOptions } from '../http/plugins/load-shedding.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makePasswordHasher } from '../infra/crypto/password-hasher.ts';
import type { ScryptCost } from '../infra/crypto/scrypt-hasher.ts';
import { makeUserStore } from '../infra/postgres/user-store.ts';
import { traceHasher } from '../infra/tracing/traced.ts';
import { withTimeout } from '../runtime/with-timeout.ts';

/** Password checks, and the limits that refuse them under load. */
export interface Hashing {
  hasher: PasswordHasher;
  /** SCRYPT_*. */
  cost: ScryptCost;
  bulkhead: Bulkhead;
  checkPassword: CheckPassword;
  loadShedding: Omit<LoadSheddingOptions, 'isStoreFull' | 'observe'>;
}

interface HashingParts {
  config: Config;
  postgres: Pick<Postgres, 'prisma' | 'inLane'>;
  clock: Clock;
  observe: Observe;
  tracer: Tracer | null;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Interval between samples of the event loop's lag, in milliseconds. */
const LAG_INTERVAL = 100;

/** Interval between steps of the walk through the stored hashes, in milliseconds. */
const WALK_INTERVAL = 2000;
/** How long startup waits for the first step, in milliseconds. */
const WALK_START_TIMEOUT = 1000;

export async function makeHashing({
  config,
  postgres,
  clock,
  observe,
  tracer,
  tasks,
  logger,
}: HashingParts): Promise<Hashing> {
  const cost = { logN: config.SCRYPT_LOG_N, r: config.SCRYPT_R, p: config.SCRYPT_P };
  const plain = makePasswordHasher(cost, config.hashMemory);
  const hasher = tracer ? traceHasher(plain, tracer) : plain;
  const bulkhead = openBulkhead(config, clock, observe);
  const costs = makeHashCosts({
    hasher,
    samples: makeUserStore(postgres),
    clock,
    onChange: (all) => {
      logger.info({ costs: all }, 'each failed login computes one hash of each cost that is stored');
    },
  });
  // One hash through the bulkhead, so that it knows how long a hash takes before the first login.
  await bulkhead.run('known', ['', ''], () => hasher.imitate(hasher.cost, 'no password'));
  await withTimeout(costs.step(), WALK_START_TIMEOUT).catch(() => undefined);
  const gauge = makeLagGauge(LAG_INTERVAL, clock);
  tasks.every(LAG_INTERVAL, null, gauge.sample, gauge.sample);
  tasks.every(WALK_INTERVAL, 'hash costs', () => costs.step());

  return {
    hasher,
    cost,
    bulkhead,
    checkPassword: makeCheckPassword({ hasher, costs, bulkhead }),
    loadShedding: {
      lag: gauge.lag,
      maxLag: config.SHED_LAG,
      hashRefusal: bulkhead.tryAdmit,
    },
  };
}

function openBulkhead(config: Config, clock: Clock, observe: Observe): Bulkhead {
  return makeBulkhead(
    {
      concurrency: config.HASH_CONCURRENCY,
      queue: config.HASH_QUEUE,
      queueTimeout: config.HASH_QUEUE_TIMEOUT * 1000,
    },
    systemTimers,
    clock,
    observe,
  );
}
