import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { PrismaClient } from '../../generated/prisma/client.ts';

export interface PostgresOptions {
  url: string;
  /** DATABASE_POOL: connections of this replica. */
  pool: number;
  /** How long a statement or a wait for a connection may take, in milliseconds. */
  timeout: number;
}

/** The pool and Prisma over it. Neither connects before it is used. */
export interface Postgres {
  prisma: PrismaClient;
  pool: pg.Pool;
  close(): Promise<void>;
}

export function makePostgres({ url, pool: max, timeout }: PostgresOptions): Postgres {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
    keepAlive: true,
  });
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
