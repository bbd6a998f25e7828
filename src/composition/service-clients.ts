import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { makeServiceClients } from '../domain/clients/authenticate.ts';
import { makeClientDirectory } from '../domain/clients/directory.ts';
import type { Clock } from '../domain/clock.ts';
import { makeClientStore } from '../infra/postgres/client-store.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

interface ClientsParts {
  prisma: PrismaClient;
  clock: Clock;
  tasks: Pick<BackgroundTasks, 'every'>;
}

/** Reload interval: how long a deleted client or secret may stay accepted, in milliseconds. */
const INTERVAL = 2000;

/** The registered services, held in memory and reloaded in the background. */
export function makeClients({ prisma, clock, tasks }: ClientsParts) {
  const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref());
  const directory = makeClientDirectory({ store: makeClientStore(prisma), clock, sleep });
  tasks.every(INTERVAL, 'client reload', () => directory.load());
  return makeServiceClients(directory);
}
