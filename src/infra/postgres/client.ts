import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
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
  /** Seconds that a connection may be used for. */
  lifetime?: number;
  observe?: ObservePostgres;
  tracer?: Tracer | null;
}

/**
 * Seconds. A busy connection would never end by itself, and whoever ends once its clients have gone (a PgBouncer at SIGTERM),
 * or is not the primary any more, would be kept for as long as there is work.
 */
export const CONNECTION_LIFETIME = 60;

/** Milliseconds after which the server is said not to answer. */
const PROBE_TIMEOUT = 1000;

/** The pool and Prisma over it. Neither connects before it is used. */
export interface Postgres {
  prisma: PrismaClient;
  pool: pg.Pool;
  /** One connection that no work waits for: whether the server answers does not depend on whether the pool is full. */
  probe: pg.Pool;
  close(): Promise<void>;
}

export function makePostgres(options: PostgresOptions): Postgres {
  const { url, pool: max, timeout, observe = UNOBSERVED, tracer = null } = options;
  const { lifetime = CONNECTION_LIFETIME } = options;
  const config: pg.PoolConfig = {
    Client: observedClient(observe, tracer),
    connectionString: url,
    max,
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
    keepAlive: true,
    // Less by chance, so that replicas that started together do not connect anew together.
    maxLifetimeSeconds: lifetime * (1 - Math.random() / 4),
    // Prisma sends times in UTC without saying so. A pooler keeps this setting to its client.
    // (The pool waits for the promise; its types do not say so.)
    onConnect: (client) => client.query("SET TIME ZONE 'UTC'") as unknown as undefined,
  };
  const pool = makeObservedPool(config, observe, tracer);
  // An idle connection that breaks is the pool's affair: the next query opens another or fails by itself.
  pool.on('error', () => undefined);
  const probe = new pg.Pool({
    ...{ Client: config.Client, connectionString: url, max: 1, keepAlive: true },
    connectionTimeoutMillis: PROBE_TIMEOUT,
    query_timeout: PROBE_TIMEOUT,
  });
  probe.on('error', () => undefined);
  const prisma = new PrismaClient({
    adapter: new PrismaPg(pool),
    transactionOptions: { maxWait: timeout, timeout: 2 * timeout },
  });
  return {
    prisma,
    pool,
    probe,
    async close() {
      if (!probe.ended) await probe.end();
      await prisma.$disconnect();
      if (!pool.ended) await pool.end();
    },
  };
}
