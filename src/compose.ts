import type { FastifyBaseLogger } from 'fastify';
import type { AppOptions, OpsOptions } from './app.ts';
import { makeClients } from './compose-clients.ts';
import { makeDurability } from './compose-durability.ts';
import { makeFeed } from './compose-feed.ts';
import { makeHashing } from './compose-hashing.ts';
import { followClientHash, openKeyRing } from './compose-keys.ts';
import { openStates } from './compose-states.ts';
import type { Config } from './config.ts';
import { jwksMaxAge } from './domain/access-tokens/key-life.ts';
import type { Tracer } from './domain/tracing/tracer.ts';
import type { Lifetimes } from './domain/tokens/token-record.ts';
import { makeMetrics } from './infra/metrics/metrics.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { makeTokenStore } from './infra/postgres/token-store.ts';
import { makeReadiness } from './readiness.ts';
import { makeServices } from './compose-services.ts';
import { systemClock } from './system-clock.ts';

export interface Composition {
  app: AppOptions;
  ops: OpsOptions;
  /** Starts what runs beside the requests: write-behind, sweeps, retries. */
  start(): void;
  /** From now on we are about to stop: not ready, and answers say so. */
  drain(): void;
  close(): Promise<void>;
}

/** Builds clients, stores and services. Nothing connects before it is used. @param databaseUrl given or embedded. */
export async function compose(
  config: Config,
  databaseUrl: string,
  logger: FastifyBaseLogger,
  tracer: Tracer | null = null,
): Promise<Composition> {
  let draining = false;
  const lifetimes: Lifetimes = {
    accessToken: config.ACCESS_TOKEN_TTL,
    refreshToken: config.REFRESH_TOKEN_TTL,
    session: config.SESSION_MAX_AGE,
  };
  const metrics = makeMetrics({ hasRedis: config.REDIS_URL !== undefined, now: () => systemClock.now() });
  const { observe } = metrics;
  const postgres = makePostgres({
    url: databaseUrl,
    pool: config.DATABASE_POOL,
    timeout: config.DATABASE_TIMEOUT,
    observe,
    tracer,
  });
  const opened = openStates(config, logger, observe, tracer);
  const { states, redis } = opened;
  const { prisma } = postgres;
  const keyRing = await openKeyRing(config, prisma, logger);
  const hashClient = followClientHash(keyRing);
  const tokens = makeTokenStore(prisma);
  const cacheTtl = config.SESSION_CACHE_TTL;
  const durability = makeDurability({
    states: opened,
    tokens,
    prisma,
    cacheTtl,
    clock: systemClock,
    observe,
    logger,
  });
  const clients = makeClients({ prisma, clock: systemClock, observe, logger });
  const feed = makeFeed({
    feed: opened.feed,
    prisma,
    accessTokenTtl: lifetimes.accessToken,
    maxReaders: config.REVOCATION_READERS_MAX,
    isClient: (client) => clients.clients.isStillGood(client),
    clock: systemClock,
    observe,
    logger,
  });
  const hashing = await makeHashing(config, systemClock, observe, tracer);
  const services = makeServices({
    config,
    lifetimes,
    states,
    unpublished: opened.unpublished,
    feed: opened.feed,
    tokens,
    postgres,
    durability,
    hashing,
    clients: clients.clients,
    clock: systemClock,
    observe,
    logger,
  });
  const readiness = makeReadiness({ postgres, states, isDraining: () => draining });
  metrics.watch({
    readiness,
    hashing: {
      running: hashing.bulkhead.running,
      waiting: hashing.bulkhead.waiting,
      concurrency: config.HASH_CONCURRENCY,
      queue: config.HASH_QUEUE,
    },
    pool: postgres.pool,
    writeBehind: durability.writeBehind,
    pendingRevocations: durability.pendingRevocations,
    reuseQueue: durability.reuseQueue,
    feed: feed.fanOut,
    keys: () => keyRing.current(),
    lag: hashing.loadShedding.lag,
  });
  durability.connect();

  return {
    app: {
      services,
      keyRing,
      jwksMaxAge: jwksMaxAge(config.KEY_PUBLISH_LEAD),
      issuer: config.ISSUER,
      audience: config.AUDIENCE,
      lifetimes,
      hashClient,
      rateLimit: { redis, nameSpace: `${config.REDIS_PREFIX}limit:`, allow: config.RATE_LIMIT_ALLOW },
      limits: { logIn: config.RATE_LIMIT_LOGIN, signUp: config.RATE_LIMIT_SIGNUP },
      loadShedding: hashing.loadShedding,
      fanOut: feed.fanOut,
      trustProxy: config.TRUST_PROXY,
      requestTimeout: config.REQUEST_TIMEOUT * 1000,
      docs: config.DOCS_ENABLED,
      isDraining: () => draining,
      clock: systemClock,
      logger,
      observe,
      tracer,
    },
    start: () => {
      durability.start();
      clients.start();
      feed.start();
    },
    ops: { readiness, metrics: () => metrics.text(), logger },
    drain() {
      draining = true;
      // Readers stay for as long as they are let: they are to go elsewhere.
      feed.fanOut.close();
    },
    async close() {
      keyRing.close();
      hashing.close();
      await feed.stop();
      await clients.stop();
      await durability.stop();
      opened.close();
      await postgres.close();
    },
  };
}
