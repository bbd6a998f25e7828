import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { makeServiceClients } from '../domain/clients/authenticate.ts';
import { makeCheckAssertion } from '../infra/issuers/check-assertion.ts';
import { makeIssuerKeys } from '../infra/issuers/issuer-keys.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeClientDirectory } from '../domain/clients/directory.ts';
import type { Clock } from '../domain/clock.ts';
import { makeClientStore } from '../infra/postgres/client-store.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface ClientsParts {
  /** ISSUER. */
  issuer: string;
  prisma: PrismaClient;
  clock: Clock;
  observe: Observe;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Reload interval: how long a deleted client or secret may stay accepted, in milliseconds. */
const INTERVAL = 2000;

/** How often the keys of issuers are fetched, in milliseconds. */
const KEY_INTERVAL = 300_000;

/** The registered services, held in memory and reloaded in the background. */
export function makeClients({ issuer, prisma, clock, observe, tasks, logger }: ClientsParts) {
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref());
  const directory = makeClientDirectory({ store: makeClientStore(prisma), clock, sleep });
  const keys = makeIssuerKeys({ registered: directory.issuers, clock, fetch, log: logger });
  tasks.every(INTERVAL, 'client reload', async () => {
    await directory.load();
    keys.fetchNew();
  });
  tasks.every(KEY_INTERVAL, null, () => keys.refreshAll());
  const clients = makeServiceClients(directory, clock);
  const checkAssertion = makeCheckAssertion({
    refresh: () => directory.refresh(),
    keys,
    clients,
    issuer,
    clock,
    observe,
    log: logger,
  });
  return { directory, clients, checkAssertion };
}
