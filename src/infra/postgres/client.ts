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

/**
 * A connection that does not outlive a statement that timed out. pg gives the statement up and keeps the connection, on
 * which it still runs, perhaps within a transaction that nobody will end: whatever came next on that connection would
 * belong to it, and be lost with it after it had been said to be done.
 */
class DisposableClient extends pg.Client {
  // pg's own signature is a dozen overloads; what passes through here is not looked at.
  override query(...args: unknown[]): never {
    const work = (super.query as (...args: unknown[]) => unknown).apply(this, args);
    if (work instanceof Promise) {
      work.catch((error: unknown) => {
        // Ending a connection in the middle of a statement destroys its socket.
        if (error instanceof Error && error.message === 'Query read timeout') void this.end();
      });
    }
    return work as never;
  }
}

/** The pool and Prisma over it. Neither connects before it is used. */
export interface Postgres {
  prisma: PrismaClient;
  pool: pg.Pool;
  close(): Promise<void>;
}

export function makePostgres({ url, pool: max, timeout }: PostgresOptions): Postgres {
  const pool = new pg.Pool({
    Client: DisposableClient,
    connectionString: url,
    max,
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
    keepAlive: true,
    // Prisma sends times in UTC without saying so. A pooler keeps this setting to its client.
    // (The pool waits for the promise; its types do not say so.)
    onConnect: (client) => client.query("SET TIME ZONE 'UTC'") as unknown as undefined,
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
