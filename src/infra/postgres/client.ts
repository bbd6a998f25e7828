import { PrismaPg } from '@prisma/adapter-pg';
import pg from 'pg';
import { makeInLane, type InLane } from './account-transaction.ts';
import { certificateEnd } from '../tls/peer-certificate.ts';
import type { Tracer } from '../../telemetry/tracer.ts';
import { PrismaClient } from '../../generated/prisma/client.ts';
import { connectionOf } from './connection.ts';
import { makeRunPrepared, type RunPrepared } from './prepared.ts';
import { settle } from './session-settings.ts';
import { SettingsError } from './settings-error.ts';
import {
  makeObservedPool,
  observedClient,
  type ObservePostgres,
  type WatchPostgres,
} from './observed-pool.ts';

export interface PostgresOptions {
  url: string;
  /** DATABASE_CA: PEM certificates of the CAs that may sign the server's certificate. */
  ca?: string | undefined;
  /** DATABASE_POOL: connections of this replica. */
  pool: number;
  /** Time limit of a statement, and of a wait for a connection or for a turn in a lane, in milliseconds. */
  timeout: number;
  /** Greatest age of a connection, in seconds. */
  lifetime?: number;
  /** null for a command, which has no metrics. */
  observe: ObservePostgres | null;
  watch?: WatchPostgres;
  tracer?: Tracer | null;
}

/**
 * Seconds. The pool never closes a busy connection. Without this limit, a server that waits for its clients to leave (a
 * PgBouncer after SIGTERM), or that is no longer the primary, would stay in use as long as there is work.
 */
export const CONNECTION_LIFETIME = 60;

/** Timeout of a probe, in milliseconds. */
const PROBE_TIMEOUT = 1000;

/** The pool, and Prisma on top of it. Neither connects before its first use. */
export interface Postgres {
  prisma: PrismaClient;
  pool: pg.Pool;
  /** For what waits for the rows of an account. */
  inLane: InLane;
  /** For what is read or ended often. */
  run: RunPrepared;
  /** A separate connection for probes, so that they succeed even if the pool is full. */
  probe: pg.Pool;
  /** When the server's certificate expires, by the newest connection; ms since 1970, and null without TLS. */
  certificateEnd(): number | null;
  /** Why the newest connection was refused because of the server's settings; null if it was not. */
  refusal(): SettingsError | null;
  close(): Promise<void>;
}

export function makePostgres(options: PostgresOptions): Postgres {
  const { url, ca, pool: max, timeout, observe, watch, tracer = null } = options;
  const { lifetime = CONNECTION_LIFETIME } = options;
  const connection = connectionOf(url, ca);
  let refusal: SettingsError | null = null;
  const prepare = async (client: pg.ClientBase) => {
    try {
      await settle(client);
      refusal = null;
    } catch (error) {
      if (error instanceof SettingsError) refusal = error;
      throw error;
    }
  };
  // The pool awaits the promise, although its types do not say so.
  const onConnect = prepare as (client: pg.ClientBase) => void;
  const config: pg.PoolConfig = {
    ...connection,
    Client: observedClient(observe, watch, tracer),
    max,
    connectionTimeoutMillis: timeout,
    query_timeout: timeout,
    keepAlive: true,
    // Jitter, so that replicas that started together do not reconnect together.
    maxLifetimeSeconds: lifetime * (1 - Math.random() / 4),
    onConnect,
  };
  const pool = makeObservedPool(config, observe, watch, tracer);
  // The pool replaces a broken idle connection. The next query opens another one, or fails.
  pool.on('error', () => undefined);
  let certificate: number | null = null;
  // The types leave out the connection.
  pool.on('connect', (client) => {
    certificate = certificateEnd(
      (client as unknown as { connection: { stream: unknown } }).connection.stream,
    );
  });
  const probe = new pg.Pool({
    ...connection,
    Client: config.Client,
    max: 1,
    keepAlive: true,
    onConnect,
    // So that it learns of changed settings.
    maxLifetimeSeconds: lifetime,
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
    inLane: makeInLane(prisma, timeout),
    run: makeRunPrepared(pool),
    probe,
    certificateEnd: () => certificate,
    refusal: () => refusal,
    async close() {
      if (!probe.ended) await probe.end();
      await prisma.$disconnect();
      if (!pool.ended) await pool.end();
    },
  };
}
