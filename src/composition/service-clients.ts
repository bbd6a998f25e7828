import type { FastifyBaseLogger } from 'fastify';
import { makeBackgroundTasks } from '../runtime/background-tasks.ts';
import { makeServiceClients } from '../domain/clients/authenticate.ts';
import { makeClientDirectory } from '../domain/clients/directory.ts';
import type { Clock } from '../domain/clock.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeClientStore } from '../infra/postgres/client-store.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface ClientsParts {
  prisma: PrismaClient;
  clock: Clock;
  observe: Observe;
  logger: FastifyBaseLogger;
}

/** Reload interval: how long a deleted client or secret may stay accepted, in milliseconds. */
const INTERVAL = 2000;

/** The registered services, held in memory and reloaded in the background. */
export function makeClients({ prisma, clock, observe, logger }: ClientsParts) {
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref());
  const directory = makeClientDirectory({ store: makeClientStore(prisma), clock, sleep });
  const background = makeBackgroundTasks(logger, observe);
  return {
    clients: makeServiceClients(directory),
    start(): void {
      background.every(INTERVAL, 'client reload', () => directory.load());
    },
    stop: () => background.stop(),
  };
}
