import { PrismaPg } from '@prisma/adapter-pg';
import type pg from 'pg';
import { UNOBSERVED } from '../../domain/metrics/observe.ts';
import type { Tracer } from '../../domain/tracing/tracer.ts';
import { PrismaClient } from '../../generated/prisma/client.ts';
import { makeObservedPool, observedClient, type ObservePostgres } from './observed-pool.ts';

export interface PostgresOptions {
  url: string;
  /** DATABASE_POOL: connections of this replica. */
  pool: number;
  /** How long a statement or a wait for a connection may take, in milliseconds. */
  timeout: number;
  observe?: ObservePostgres;
  tracer?: Tracer | null;
}

/** The pool and Prisma over it. Neither connects before it is used. */
export interface Postgres {
  prisma: PrismaClient;
  pool: pg.Pool;
  close(): Promise<void>;
}

export function makePostgres(options: PostgresOptions): Postgres {
  const { url, pool: max, timeout, observe = UNOBSERVED, tracer = null } = options;
  const config: pg.PoolConfig = {
    Client: observedClient(observe, tracer),
    connectionString: url,
    max,
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
    keepAlive: true,
    // Prisma sends times in UTC without saying so. A pooler keeps this setting to its client.
    // (The pool waits for the promise; its types do not say so.)
    onConnect: (client) => client.query("SET TIME ZONE 'UTC'") as unknown as undefined,
  };
  const pool = makeObservedPool(config, observe, tracer);
  // An idle connection that breaks is the pool's affair: the next query opens another or fails by itself.
  pool.on('error', () => undefined);
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool),
    transactionOptions: { maxWait: timeout, timeout: 2 * timeout },
  });
  return {
    prisma,
    pool,
    async close() {
      await prisma.$disconnect();
      if (!pool.ended) await pool.end();
    },
  };
}
