import type { FastifyBaseLogger } from 'fastify';
import type { AppOptions, OpsOptions } from './app.ts';
import { reasonOf } from './background.ts';
import { makeClients } from './compose-clients.ts';
import { makeDurability } from './compose-durability.ts';
import { makeFeed } from './compose-feed.ts';
import { makeHashing } from './compose-hashing.ts';
import { openStates } from './compose-states.ts';
import type { Config } from './config.ts';
import { jwksMaxAge } from './domain/access-tokens/key-life.ts';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import type { Tracer } from './domain/tracing/tracer.ts';
import type { Lifetimes } from './domain/tokens/token-record.ts';
import { makeClientHash, type ClientHash } from './infra/crypto/client-hash.ts';
import { generatedRefreshSecret, generatedSigningKeysDir } from './infra/crypto/generated-keys.ts';
import { makeKeyRing } from './infra/crypto/key-ring.ts';
import { makeMetrics } from './infra/metrics/metrics.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { makeKeyRegistry } from './infra/postgres/key-registry.ts';
import { makeTokenStore } from './infra/postgres/token-store.ts';
import type { PrismaClient } from './generated/prisma/client.ts';
import { makeReadiness } from './readiness.ts';
import { StartError } from './start-error.ts';
import { makeServices } from './compose-services.ts';
import { systemClock } from './system-clock.ts';
import { within } from './within.ts';

export interface Composition {
  app: AppOptions;
  ops: OpsOptions;
  /** Starts what runs beside the requests: write-behind, sweeps, retries. */
  start(): void;
  /** From now on we are about to stop: not ready, and answers say so. */
  drain(): void;
  close(): Promise<void>;
}

/** How often the keys are looked at, in milliseconds. */
const KEY_INTERVAL = 5000;

/** A start waits that long to hear which key signs, in milliseconds; without an answer it is the oldest. */
const KEY_PATIENCE = 1000;

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
    isClient: (clientId) => clients.clients.isRegistered(clientId),
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

/** Its key is taken from the newest refresh secret: all replicas share that, and it changes while we run. */
function followClientHash(keyRing: KeyRing): ClientHash {
  let hash = makeClientHash(firstOf(keyRing.current().refresh).secret);
  keyRing.onChange((keys) => {
    hash = makeClientHash(firstOf(keys.refresh).secret);
    return Promise.resolve();
  });
  return (address, userAgent) => hash(address, userAgent);
}

async function openKeyRing(config: Config, prisma: PrismaClient, logger: FastifyBaseLogger) {
  const { DATA_DIR: dataDir, readRefreshSecrets } = config;
  const generated = readRefreshSecrets ? null : inDataDir(dataDir, generatedRefreshSecret);
  const keyRing = makeKeyRing({
    registry: makeKeyRegistry(prisma, config.KEY_PUBLISH_LEAD),
    signingKeysDir: config.SIGNING_KEYS_DIR ?? inDataDir(dataDir, generatedSigningKeysDir),
    readRefreshSecrets: readRefreshSecrets ?? (() => generated ?? ''),
    interval: KEY_INTERVAL,
    onError: (error) => {
      logger.error({ err: error }, 'the keys cannot be used; those in use stay');
    },
    onRegistry: (error) => {
      if (error) logger.warn({ reason: reasonOf(error) }, 'which key may sign cannot be asked; it stays');
      else logger.info('which key may sign can be asked again');
    },
  });
  await within(keyRing.settle(), KEY_PATIENCE).catch(() => undefined);
  return keyRing;
}

/** @throws StartError where the data folder cannot be used */
function inDataDir(dataDir: string, generate: (dataDir: string) => string): string {
  try {
    return generate(dataDir);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new StartError(
      `cannot keep generated keys in ${dataDir} (${code}): give SIGNING_KEYS_DIR and REFRESH_TOKEN_SECRET, or another DATA_DIR`,
    );
  }
}

function firstOf<Item>(items: readonly Item[]): Item {
  const [first] = items;
  if (first === undefined) throw new Error('the key ring is empty');
  return first;
}
