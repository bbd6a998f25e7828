import type { FastifyBaseLogger } from 'fastify';
import { auditKeys, makeAudit, openTrail } from './audit.ts';
import { makeDurability } from './durability.ts';
import { makeEnforcementParts } from './enforcement.ts';
import { makeFeed, readersPerService } from './revocation-feed.ts';
import { makeMailParts } from './mails.ts';
import { makeHashing } from './hashing.ts';
import { makeFillWithSeed } from './seed.ts';
import { openKeyRing, openSecretBox } from './signing-keys.ts';
import { openTokenStates, type OpenedTokenStates } from './open-token-states.ts';
import type { Config } from '../config/config.ts';
import { rememberedTokens } from '../domain/sizing/remembered-tokens.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { followAttemptHash, makeCallerHashes } from '../infra/crypto/keyed-hashes.ts';
import { followLoginTokens } from '../infra/crypto/login-token.ts';
import { followNameHash } from '../infra/crypto/name-hash.ts';
import { followLoginChallenges } from '../infra/crypto/passkey-challenge.ts';
import type { Upkeep } from '../infra/metrics/gauges.ts';
import { makeMetrics } from '../infra/metrics/metrics.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { targetOf } from '../infra/postgres/connection.ts';
import { mapDatabaseErrors } from '../infra/postgres/errors.ts';
import { countFactorKeys } from '../infra/postgres/factor-keys.ts';
import { pause } from '../infra/pause.ts';
import { readLastPurge } from '../infra/postgres/last-purge.ts';
import { redisCertificateEnd } from '../infra/redis/inspect.ts';
import { makeFeedReaders } from '../infra/postgres/feed-readers.ts';
import { makeTokenStore } from '../infra/postgres/token-store.ts';
import { makeBackgroundTasks, type BackgroundTasks } from '../runtime/background-tasks.ts';
import { readBuild } from '../runtime/build.ts';
import { makeReadiness } from '../runtime/readiness.ts';
import type { LogOutput } from '../runtime/logger.ts';
import { containerMemory } from '../runtime/memory.ts';
import { makeStoreWatch } from '../runtime/store-watch.ts';
import { makeUseCases } from './use-cases.ts';
import { systemClock, systemTimers } from '../runtime/system-clock.ts';
import { lifetimesOf } from '../domain/tokens/claims.ts';
import { makeProgress } from '../domain/enforcement/progress.ts';
import { ignoreOutage } from '../domain/errors.ts';
import type { SecretBox } from '../domain/factors/ports.ts';
import type { VerifyAnswers } from '../domain/passkeys/ports.ts';
import { type Clock, CLOCK_TOLERANCE } from '../domain/clock.ts';
import { describeObjection, joinStandings } from '../domain/standing.ts';
import { makeAgreement } from '../infra/installation/agreement.ts';
import { makeInstallationRecord } from '../infra/installation/record.ts';
import { makeSeedMark } from '../infra/installation/seed-mark.ts';
import { StartError } from '../runtime/start-error.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { postgresNow } from '../infra/postgres/inspect.ts';
import { makeClockWatch } from '../runtime/clock-watch.ts';
import { makeRegisteredServices } from '../domain/services/authenticate.ts';
import { makeCheckAssertion } from '../infra/issuers/check-assertion.ts';
import { makeIssuerKeys } from '../infra/issuers/issuer-keys.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeBoundedQueues } from '../domain/limits/bounded.ts';
import { makeLimitAttempts } from '../domain/limits/limit-attempts.ts';
import { makeServiceDirectory } from '../domain/services/directory.ts';
import { makeServiceStore } from '../infra/postgres/service-store.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

/**
 * Builds clients, stores and use cases.
 * @param databaseUrl of the configured or the embedded database.
 * @param output the log's own: the audit trail shares it.
 */
export async function compose(
  config: Config,
  databaseUrl: string,
  logger: FastifyBaseLogger,
  output: Pick<LogOutput, 'openAudit' | 'dropped'>,
  tracer: Tracer | null = null,
) {
  let isDraining = false;
  const lifetimes = lifetimesOf(config);
  const build = readBuild();
  const metrics = makeMetrics({
    hasRedis: config.REDIS_URL !== undefined,
    now: () => systemClock.now(),
    build,
  });
  const { observe } = metrics;
  const standing = joinStandings(
    { objection: () => agreement.standing.objection() },
    { objection: () => opened.standing.objection() },
  );
  const tasks = makeBackgroundTasks(logger, observe, standing);
  const trail = openTrail({ target: config.AUDIT_LOG, output, observe, logger });
  const { audit, auditLimit, auditFailure } = makeAudit({ trail, observe, clock: systemClock });
  const postgres = makePostgres({
    url: databaseUrl,
    ca: config.DATABASE_CA,
    pool: config.DATABASE_POOL,
    timeout: config.DATABASE_TIMEOUT,
    observe,
    watch: makeStoreWatch({ logger, store: 'PostgreSQL', target: targetOf(databaseUrl) }),
    tracer,
  });
  const { prisma } = postgres;
  const opened = openTokenStates(config, prisma, logger, observe, tracer, tasks, systemClock);
  const { tokenStates, redis } = opened;
  const ownClock = makeClock({ config, postgres, tokenStates: opened, tasks, logger });
  const { clock } = ownClock;
  const keyRing = openKeyRing(config, prisma, tasks, logger);
  const mark = makeSeedMark(prisma);
  let forbid: (error: StartError) => void = () => undefined;
  const forbidden = new Promise<never>((_, reject) => {
    forbid = reject;
  });
  // It may reject before anybody awaits it, which would end the process.
  forbidden.catch(() => undefined);
  const agreement = makeAgreement({
    record: makeInstallationRecord(prisma),
    settings: config,
    keys: keyRing,
    forbidden: config.production
      ? {
          mark,
          end: (objection) => {
            forbid(new StartError(describeObjection(objection)));
          },
        }
      : null,
    isAlone: config.DATABASE_URL === undefined,
    logger,
  });
  tasks.every(LOOK_INTERVAL, 'installation', agreement.look, agreement.look);
  const tokens = makeTokenStore(postgres, lifetimes, config.NOTICES);
  const cacheTtl = config.SESSION_CACHE_TTL;
  const boundedQueue = makeBoundedQueues({ clock, timers: systemTimers, observe });
  const durability = makeDurability({
    settings: agreement.standing,
    tokenStates: opened,
    tokens,
    postgres,
    cacheTtl,
    pool: config.DATABASE_POOL,
    databaseTimeout: config.DATABASE_TIMEOUT,
    clock,
    boundedQueue,
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
  const feedReaders = makeFeedReaders(postgres);
  const progress = makeProgress({ store: feedReaders, clock, observe });
  const { fanOut, feed } = makeFeed({
    feed: opened.feed,
    prisma,
    accessTokenTtl: lifetimes.accessToken,
    maxReaders: config.REVOCATION_READERS_MAX,
    maxReadersPerService: readersPerService(config),
    isAdmitted: (service) => services.refusalOf(service, 'revocations') === null,
    serviceVersions: directory.versions,
    onRead: progress.note,
    clock,
    observe,
    tasks,
    logger,
  });
  const { connected, ...enforcing } = makeEnforcementParts({
    config,
    store: feedReaders,
    progress,
    fanOut,
    feed,
    accessTokenTtl: lifetimes.accessToken,
    boundedQueue,
    clock,
    tasks,
  });
  directory.onVersions((versions) => {
    fanOut.sendServices(versions);
  });
  const hashing = await makeHashing({ config, postgres, clock, observe, tracer, tasks, logger });
  const slotHash = followAttemptHash(keyRing);
  const limitAttempt = makeLimitAttempts({
    slots: opened.attempts,
    hash: slotHash,
    auditLimit,
    auditFailure,
  });
  const mailParts = makeMailParts({
    config,
    postgres,
    limitAttempt,
    boundedQueue,
    clock,
    observe,
    tasks,
    logger,
  });
  const secrets = openSecretBox(config);
  const useCases = makeUseCases({
    config,
    lifetimes,
    tokenStates,
    unpublishedStates: opened.unpublishedStates,
    feed: opened.feed,
    limitAttempt,
    slotHash,
    nameHash: followNameHash(keyRing),
    tokens,
    postgres,
    durability,
    hashing,
    loginTokens: followLoginTokens(keyRing),
    secrets,
    loginChallenges: followLoginChallenges(keyRing),
    verifyAnswers: await openVerifyAnswers(config),
    mails: mailParts.mails,
    resetRequests: mailParts.resetRequests,
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
    standing,
    isDraining: () => isDraining,
  });
  metrics.watch({
    readiness,
    lifetimes: agreement.lifetimes,
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
    oldestMail: mailParts.oldest,
    upkeep: makeUpkeep({ postgres, secrets, clock, tasks }),
    feed: fanOut,
    feedReaders: connected.tally,
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
  await withTimeout(agreement.open(), START_TIMEOUT).catch(() => undefined);
  // The first answer which key signs is no change.
  auditKeys(keyRing, audit);
  durability.connect();

  return {
    app: {
      useCases,
      keyRing,
      config,
      callerHashes: makeCallerHashes(keyRing),
      rateLimit: { redis, nameSpace: `${config.REDIS_PREFIX}limit:`, auditLimit },
      loadShedding: { ...hashing.loadShedding, isStoreFull: opened.memory.isNearlyFull },
      fanOut,
      enforcing,
      isDraining: () => isDraining,
      standing,
      clock,
      timers: systemTimers,
      rememberedTokens: rememberedTokens(containerMemory(), config.neededMemory),
      random: Math.random,
      logger,
      observe,
      tracer,
    },
    /** Starts the background tasks: write-behind, sweeps, retries. */
    start: () => {
      tasks.start();
    },
    /** Rejects with a StartError if this replica finds out that it may never serve this database. */
    forbidden,
    /** Adds the users and services of SEED_FILE, with retries; null if it is not set. @throws StartError */
    fillWithSeed:
      config.seed &&
      makeFillWithSeed({
        seed: config.seed,
        mark,
        createAccount: useCases.createAccount,
        services: makeServiceStore(prisma),
        clock,
        audit,
        logger,
        pause,
      }),
    /** What in the database's settings makes it impossible to serve, and what to do; null if nothing is known of it. */
    refusal: () => postgres.refusal()?.message ?? null,
    ops: { readiness, build, metrics: () => metrics.text(), logger },
    /** Begins draining: the replica is not ready, and its responses close their connections. */
    drain() {
      isDraining = true;
      // Feed readers never disconnect on their own: closing moves them to another replica.
      fanOut.close();
      enforcing.enforcement.close();
    },
    async close() {
      fanOut.close();
      enforcing.enforcement.close();
      await tasks.stop();
      await agreement.close();
      if (standing.objection() === null) {
        await durability.finish();
        await mailParts.finish();
      } else durability.abandon();
      opened.close();
      await postgres.close();
      await trail.flush();
    },
  };
}

export type Composition = Awaited<ReturnType<typeof compose>>;

/**
 * The library behind it takes memory and time to load, so it is loaded before the replica is ready, or never.
 */
async function openVerifyAnswers({
  WEBAUTHN_RP_ID: rpId,
  WEBAUTHN_ORIGINS: origins,
}: Config): Promise<VerifyAnswers | null> {
  if (rpId === null) return null;
  const { makeVerifyAnswers } = await import('../infra/webauthn/verify-answer.ts');
  return makeVerifyAnswers({ rpId, origins });
}

interface ClockParts {
  config: Config;
  postgres: Postgres;
  tokenStates: Pick<OpenedTokenStates, 'times'>;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Milliseconds between two looks at what the installation agrees on. */
const LOOK_INTERVAL = 10_000;

/** How long startup waits for the first of them, which also says which key signs, in milliseconds. */
const START_TIMEOUT = 1000;

/** Milliseconds between two comparisons with the stores. */
const CLOCK_INTERVAL = 1000;

/** The process's clock, which knows whether the stores contradict it. Embedded stores share it, so they are not asked. */
function makeClock({ config, postgres, tokenStates, tasks, logger }: ClockParts) {
  const redis = { name: 'Redis', ask: () => tokenStates.times() } as const;
  // Like the probes of readiness, on a connection that a full pool does not hold up.
  const database = { name: 'PostgreSQL', ask: async () => [await postgresNow(postgres.probe)] } as const;
  const watch = makeClockWatch({
    others: config.DATABASE_URL === undefined ? [redis] : [redis, database],
    clock: systemClock,
    leeway: CLOCK_TOLERANCE,
    logger,
  });
  tasks.every(CLOCK_INTERVAL, 'clock check', watch.compare, watch.compare);
  const clock: Clock = { ...systemClock, isTrusted: watch.isTrusted };
  return { clock, watch };
}

interface UpkeepParts {
  postgres: Pick<Postgres, 'pool'>;
  secrets: SecretBox;
  clock: Pick<Clock, 'monotonic'>;
  tasks: Pick<BackgroundTasks, 'every'>;
}

/** How often the upkeep is read, and a failed read is tried again, in milliseconds. */
const UPKEEP_INTERVAL = 60_000;

/** Reads for the metrics what only the database knows. A scrape shows the last values, and asks nothing. */
function makeUpkeep({ postgres, secrets, clock, tasks }: UpkeepParts): () => Upkeep | null {
  let known: Upkeep | null = null;
  let due = -Infinity;
  // Soon after the start, and not a minute later.
  tasks.every(CLOCK_INTERVAL, null, async () => {
    if (clock.monotonic() < due) return;
    due = clock.monotonic() + UPKEEP_INTERVAL;
    // An outage has alerts of its own.
    await readUpkeep().catch(ignoreOutage);
  });

  async function readUpkeep(): Promise<void> {
    const { at: lastPurge } = await readLastPurge(postgres.pool);
    const used = await mapDatabaseErrors(() => countFactorKeys(postgres.pool));
    const lacking = [...used].filter(([id]) => !secrets.keyIds.includes(id));
    known = { lastPurge, withoutKey: lacking.reduce((sum, [, count]) => sum + count, 0) };
  }

  return () => known;
}

interface ServicesParts {
  /** ISSUER. */
  issuer: string;
  prisma: PrismaClient;
  clock: Clock;
  observe: Observe;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Reload interval: how long a deleted service or secret may stay accepted, in milliseconds. */
const RELOAD_INTERVAL = 2000;

/** How often the keys of issuers are fetched, in milliseconds. */
const KEY_INTERVAL = 300_000;

/** The registered services, held in memory and reloaded in the background. */
export function makeServices({ issuer, prisma, clock, observe, tasks, logger }: ServicesParts) {
  const directory = makeServiceDirectory({ store: makeServiceStore(prisma), clock, sleep: pause });
  const keys = makeIssuerKeys({ registered: directory.issuers, clock, fetch, log: logger });
  const reload = async () => {
    await directory.load();
    keys.fetchNew();
  };
  tasks.every(RELOAD_INTERVAL, 'client reload', reload, reload);
  const refreshAll = () => keys.refreshAll();
  tasks.every(KEY_INTERVAL, null, refreshAll, refreshAll);
  const services = makeRegisteredServices(directory, clock);
  const checkAssertion = makeCheckAssertion({
    refresh: () => directory.refresh(),
    keys,
    services,
    issuer,
    clock,
    observe,
    log: logger,
  });
  return { directory, services, checkAssertion };
}
