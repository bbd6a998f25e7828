import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { makeRegisteredServices } from '../domain/services/authenticate.ts';
import { makeCheckAssertion } from '../infra/issuers/check-assertion.ts';
import { makeIssuerKeys } from '../infra/issuers/issuer-keys.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeServiceDirectory } from '../domain/services/directory.ts';
import type { Clock } from '../domain/clock.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface ServicesParts {
  /** ISSUER. */
  issuer: string;
  prisma: PrismaClient;
  clock: Clock;
  observe: Observe;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Reload interval: how long a deleted service or secret may stay accepted, in milliseconds. */
const INTERVAL = 2000;

/** How often the keys of issuers are fetched, in milliseconds. */
const KEY_INTERVAL = 300_000;

/** The registered services, held in memory and reloaded in the background. */
export function makeServices({ issuer, prisma, clock, observe, tasks, logger }: ServicesParts) {
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref());
  const directory = makeServiceDirectory({ store: makeServiceStore(prisma), clock, sleep });
  const keys = makeIssuerKeys({ registered: directory.issuers, clock, fetch, log: logger });
  tasks.every(INTERVAL, 'client reload', async () => {
    await directory.load();
    keys.fetchNew();
  });
  tasks.every(KEY_INTERVAL, null, () => keys.refreshAll());
  const services = makeRegisteredServices(directory, clock);
  const checkAssertion = makeCheckAssertion({
    refresh: () => directory.refresh(),
    keys,
    services,
    issuer,
    clock,
    observe,
    log: logger,
  });
  return { directory, services, checkAssertion };
}
