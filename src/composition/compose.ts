import type { FastifyBaseLogger } from 'fastify';
import type { AppOptions, OpsOptions } from '../app.ts';
import { auditKeys, makeAudit, makeAuditLimit, openTrail } from './audit.ts';
import { makeServices } from './services.ts';
import { makeClock } from './clock.ts';
import { makeDurability } from './durability.ts';
import { makeFeed } from './revocation-feed.ts';
import { makeHashing } from './hashing.ts';
import { openKeyRing } from './signing-keys.ts';
import { settingsOf } from './settings.ts';
import { openTokenStates } from './open-token-states.ts';
import type { Config } from '../config/config.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { followAttemptHash } from '../infra/crypto/attempt-hash.ts';
import { makeCallerHashes } from '../infra/crypto/caller-hash.ts';
import { followNameHash } from '../infra/crypto/name-hash.ts';
import { makeMetrics } from '../infra/metrics/metrics.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { targetOf } from '../infra/postgres/connection.ts';
import { redisCertificateEnd } from '../infra/redis/inspect.ts';
import { makeTokenStore } from '../infra/postgres/token-store.ts';
import { makeBackgroundTasks } from '../runtime/background-tasks.ts';
import { readBuild } from '../runtime/build.ts';
import { makeDrain } from '../runtime/drain.ts';
import type { LogOutput } from '../runtime/log-output.ts';
import { containerMemory } from '../runtime/memory.ts';
import { makeReadiness } from '../runtime/readiness.ts';
import { makeStoreWatch } from '../runtime/store-watch.ts';
import { makeUseCases } from './use-cases.ts';
import { systemClock } from '../runtime/system-clock.ts';

export interface Composition {
  app: AppOptions;
  ops: OpsOptions;
  /** Starts the background tasks: write-behind, sweeps, retries. */
  start(): void;
  /** What in the database's settings makes it impossible to serve, and what to do; null if nothing is known of it. */
  refusal: () => string | null;
  /** Begins draining: the replica is not ready, and its responses close their connections. */
  drain(): void;
  close(): Promise<void>;
}

/**
 * Builds clients, stores and use cases.
 * @param databaseUrl of the configured or the embedded database.
 * @param output the log's own: the audit trail shares it.
 */
export async function compose(
  config: Config,
  databaseUrl: string,
  logger: FastifyBaseLogger,
  output: Pick<LogOutput, 'writeNow' | 'dropped'>,
  tracer: Tracer | null = null,
): Promise<Composition> {
  const drain = makeDrain();
  const settings = settingsOf(config);
  const { lifetimes } = settings;
  const build = readBuild();
  const metrics = makeMetrics({
    hasRedis: config.REDIS_URL !== undefined,
    now: () => systemClock.now(),
    build,
  });
  const { observe } = metrics;
  const tasks = makeBackgroundTasks(logger, observe);
  const trail = openTrail({ target: config.AUDIT_LOG, output, observe, logger });
  const audit = makeAudit({ trail, observe, clock: systemClock });
  const auditLimit = makeAuditLimit(audit, systemClock);
  const postgres = makePostgres({
    url: databaseUrl,
    ca: config.DATABASE_CA,
    pool: config.DATABASE_POOL,
    timeout: config.DATABASE_TIMEOUT,
    observe,
    watch: makeStoreWatch({ logger, store: 'PostgreSQL', target: targetOf(databaseUrl) }),
    tracer,
  });
  const opened = openTokenStates(config, logger, observe, tracer, tasks);
  const { tokenStates, redis } = opened;
  const { prisma } = postgres;
  const ownClock = makeClock({ config, postgres, tokenStates: opened, tasks, logger });
  const { clock } = ownClock;
  const keyRing = await openKeyRing(config, prisma, tasks, logger);
  auditKeys(keyRing, audit);
  const tokens = makeTokenStore(prisma, lifetimes);
  const cacheTtl = config.SESSION_CACHE_TTL;
  const durability = makeDurability({
    tokenStates: opened,
    tokens,
    prisma,
    cacheTtl,
    clock,
    audit,
    tasks,
    logger,
  });
  const { services, directory, checkAssertion } = makeServices({
    issuer: config.ISSUER,
    prisma,
    clock,
    observe,
    tasks,
    logger,
  });
  const fanOut = makeFeed({
    feed: opened.feed,
    prisma,
    accessTokenTtl: lifetimes.accessToken,
    maxReaders: config.REVOCATION_READERS_MAX,
    maxReadersPerService: config.REVOCATION_READERS_PER_CLIENT,
    isAdmitted: (service) => services.refusalOf(service, 'revocations') === null,
    serviceVersions: directory.versions,
    clock,
    observe,
    tasks,
    logger,
  });
  directory.onVersions((versions) => {
    fanOut.sendServices(versions);
  });
  const hashing = await makeHashing({ config, prisma, clock, observe, tracer, tasks, logger });
  const useCases = makeUseCases({
    config,
    lifetimes,
    tokenStates,
    unpublishedStates: opened.unpublishedStates,
    feed: opened.feed,
    attempts: opened.attempts,
    hashAttempt: followAttemptHash(keyRing),
    hashNames: followNameHash(keyRing),
    tokens,
    postgres,
    durability,
    hashing,
    services,
    checkAssertion,
    clock,
    observe,
    audit,
    auditLimit,
  });
  const readiness = makeReadiness({
    postgres,
    tokenStates,
    redisFailure: () => opened.redisFailure(),
    clock: ownClock.watch,
    isDraining: drain.isDraining,
  });
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
    feed: fanOut,
    keys: () => keyRing.current(),
    lag: hashing.loadShedding.lag,
    redisMemory: opened.memory.share,
    certificateEnds: () => ({
      postgres: postgres.certificateEnd(),
      redis: opened.redis && redisCertificateEnd(opened.redis),
    }),
    clockSkews: ownClock.watch.skews,
    droppedLines: output.dropped,
    memoryLimit: containerMemory,
  });
  durability.connect();

  return {
    app: {
      useCases,
      keyRing,
      settings,
      callerHashes: makeCallerHashes(keyRing),
      rateLimit: { redis, nameSpace: `${config.REDIS_PREFIX}limit:`, auditLimit },
      loadShedding: { ...hashing.loadShedding, isStoreFull: opened.memory.isNearlyFull },
      fanOut,
      isDraining: drain.isDraining,
      clock,
      random: Math.random,
      logger,
      observe,
      tracer,
    },
    start: () => {
      tasks.start();
    },
    refusal: () => postgres.refusal()?.message ?? null,
    ops: { readiness, build, metrics: () => metrics.text(), logger },
    drain() {
      drain.begin();
      // Feed readers never disconnect on their own: closing moves them to another replica.
      fanOut.close();
    },
    async close() {
      fanOut.close();
      await tasks.stop();
      await durability.finish();
      opened.close();
      await postgres.close();
      await trail.flush();
    },
  };
}
