import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/config.ts';
import type { Clock } from '../domain/clock.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { Standing } from '../domain/standing.ts';
import type { RenewalLeases } from '../domain/tokens/ports.ts';
import { withPublishing, type TokenStateStore } from '../domain/tokens/token-state-store.ts';
import type { Observe } from '../telemetry/observe.ts';
import type { AttemptSlots } from '../domain/limits/ports.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import { makeMarks } from '../infra/installation/marks.ts';
import {
  makeRedisAbsence,
  makeRedisBinding,
  type RedisBinding,
} from '../infra/installation/redis-binding.ts';
import { makeRedisMarks } from '../infra/installation/redis-marks.ts';
import { makeMemoryAttemptSlots } from '../infra/memory/attempt-slots.ts';
import { makeMemoryRenewalLeases } from '../infra/memory/renewal-leases.ts';
import { makeMemoryRevocationFeed } from '../infra/memory/revocation-feed.ts';
import { makeMemoryTokenStates, wallMicros } from '../infra/memory/token-states.ts';
import { makeRedisAttemptSlots } from '../infra/redis/attempt-slots.ts';
import { causeOf, failureOf } from '../infra/redis/connection/errors.ts';
import { makeConnections } from '../infra/redis/connection/connections.ts';
import { makeHeartbeat } from '../infra/redis/heartbeat.ts';
import { mastersOf, redisNow } from '../infra/redis/inspect.ts';
import { makeMemoryUse, type MemoryUse } from '../infra/redis/memory-use.ts';
import { onNodeError, openRedis, targetOf } from '../infra/redis/connection/open-redis.ts';
import { makeReplayGate, type ReplayGate } from '../infra/redis/connection/replay-gate.ts';
import { makeRedisRenewalLeases } from '../infra/redis/renewal-leases.ts';
import { makeRedisRevocationFeed } from '../infra/redis/revocation-feed.ts';
import type { ScriptedCluster, ScriptedRedis } from '../infra/redis/connection/scripts.ts';
import { traceRedis } from '../infra/tracing/traced.ts';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import { makeStoreWatch } from '../runtime/store-watch.ts';
import { makeRedisTokenStates } from '../infra/redis/token-states.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';

/** Where session states live: Redis, or this process. */
export interface OpenedTokenStates {
  /** Publishes every tombstone that it sets. */
  tokenStates: TokenStateStore;
  /** The same store, without publishing. */
  unpublishedStates: TokenStateStore;
  feed: RevocationFeed;
  leases: RenewalLeases;
  attempts: AttemptSlots;
  /**
   * null for the in-process store, as is the gate: a restart loses states and tombstones together, so nothing needs
   * replaying.
   */
  redis: ScriptedRedis | ScriptedCluster | null;
  gate: ReplayGate | null;
  memory: Pick<MemoryUse, 'share' | 'isNearlyFull'>;
  /** A code of why Redis fails at present; null if it works. */
  redisFailure(): string | null;
  /** The clock of every master, in milliseconds since 1970; none of the in-process store, which has ours. */
  times(): Promise<number[]>;
  /** Whether Redis is this database's, or none is used, as by the other replicas. */
  standing: Standing;
  /** Compares Redis with the database. @throws AuthError `unavailable`, also if Redis belongs to another. */
  look(): Promise<void>;
  connect(): void;
  /** Checks that every connection leads to a master, which may be full. @throws AuthError `unavailable` */
  checkMasters(): Promise<void>;
  /**
   * Also checks that every master has memory left, and shows that this replica serves. Writes nothing to a Redis that is
   * not known to be this installation's. @throws AuthError `unavailable`
   */
  check(): Promise<void>;
  close(): void;
}

/** Interval between sweeps of the in-process store, in milliseconds. */
const SWEEP_INTERVAL = 60_000;

/** Does not connect; `connect` does. */
export function openTokenStates(
  config: Config,
  prisma: PrismaClient,
  logger: FastifyBaseLogger,
  observe: Observe,
  tracer: Tracer | null,
  tasks: Pick<BackgroundTasks, 'every'>,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): OpenedTokenStates {
  const cacheTtl = config.SESSION_CACHE_TTL;
  if (config.REDIS_URL === undefined) {
    // Nobody else can use the embedded database.
    const binding =
      config.DATABASE_URL === undefined
        ? null
        : makeRedisAbsence({ marks: makeMarks(prisma), monotonic: clock.monotonic, logger });
    return openMemory(cacheTtl, observe, tasks, clock, binding);
  }

  const redis = openRedis({ ...config, REDIS_URL: config.REDIS_URL });
  const watch = makeStoreWatch({
    logger,
    store: 'Redis',
    target: targetOf({ ...config, REDIS_URL: config.REDIS_URL }),
  });
  // ioredis emits an error for every attempt to connect.
  redis.on('error', (error: unknown) => {
    watch.failed(causeOf(error));
  });
  redis.on('ready', () => {
    watch.works();
  });
  const connections = makeConnections(redis, config.REDIS_PREFIX);
  let nodeError: unknown = null;
  onNodeError(redis, (error) => {
    nodeError = error;
    // While the cluster serves, a node that is away is no outage.
    if (connections.current().length === 0) watch.failed(causeOf(error));
  });
  const heartbeat = makeHeartbeat(redis, config.REDIS_PREFIX);
  const binding = makeRedisBinding({
    marks: makeMarks(prisma),
    redisMarks: makeRedisMarks(redis, config.REDIS_PREFIX),
    connections,
    monotonic: clock.monotonic,
    logger,
  });
  const gate = makeReplayGate(connections, binding.admits);
  const memory = makeMemoryUse(redis, {
    limit: config.SHED_REDIS_MEMORY / 100,
    onChange(isNearlyFull, share) {
      const used = `${Math.round(100 * share)} % of maxmemory`;
      if (isNearlyFull)
        logger.warn(
          { used },
          'Redis is nearly full: logins, signups and new LLTs are refused; raise maxmemory',
        );
      else logger.info({ used }, 'Redis has memory again: logins, signups and new LLTs are accepted');
    },
  });
  const options = { prefix: config.REDIS_PREFIX, gate, observe };
  const states = makeRedisTokenStates(redis, { ...options, cacheTtl });
  const tokenStates: TokenStateStore = {
    ...states,
    // A note only saves look-ups. Nearly full, Redis keeps its memory for refresh and logout.
    noteEnded: (key) => (memory.isNearlyFull() ? Promise.resolve() : states.noteEnded(key)),
  };
  const unpublishedStates = tracer ? traceRedis(tokenStates, tracer) : tokenStates;
  const feed = makeRedisRevocationFeed(redis, options);
  const attempts = makeRedisAttemptSlots(redis, options);
  return {
    tokenStates: withPublishing(unpublishedStates, feed),
    unpublishedStates,
    feed,
    leases: makeRedisRenewalLeases(redis, options),
    attempts: tracer ? traceRedis(attempts, tracer) : attempts,
    redis,
    gate,
    memory,
    times: async () =>
      // A command without a connection would wait for one.
      connections.current().length > 0 ? await Promise.all(mastersOf(redis).map(redisNow)) : [],
    standing: binding.standing,
    look: () => binding.look(),
    connect: () => {
      // A failure is logged and retried, as any later one is.
      redis.connect().catch(() => undefined);
    },
    redisFailure: () => watch.cause()?.code ?? (connections.current().length === 0 ? 'not connected' : null),
    checkMasters: () => connections.checkMasters(),
    check: async () => {
      const writes = () => [connections.checkMasters(), connections.checkMemory(), heartbeat.beat()];
      const checks = [memory.measure(), ...(gate.isAdmitted() ? writes() : [])];
      await Promise.all(checks).catch((error: unknown) => {
        const { cause } = error as Error;
        // While there is no connection, the errors of the attempts to connect say more.
        if (connections.current().length > 0)
          watch.failed(causeOf(failureOf(cause) === 'connection' ? (nodeError ?? cause) : cause));
        throw error;
      });
      nodeError = null;
      watch.works();
    },
    close: () => {
      redis.disconnect();
    },
  };
}

function openMemory(
  cacheTtl: number,
  observe: Observe,
  tasks: Pick<BackgroundTasks, 'every'>,
  clock: Pick<Clock, 'now' | 'monotonic'>,
  binding: Pick<RedisBinding, 'standing' | 'look'> | null,
): OpenedTokenStates {
  const tokenStates = makeMemoryTokenStates({ cacheTtl, now: wallMicros(clock) });
  const feed = makeMemoryRevocationFeed({
    newEpoch: () => crypto.randomUUID(),
    now: clock.monotonic,
    observe,
  });
  const attempts = makeMemoryAttemptSlots(clock.monotonic);
  tasks.every(SWEEP_INTERVAL, null, () => {
    tokenStates.sweep();
    attempts.sweep();
  });
  return {
    tokenStates: withPublishing(tokenStates, feed),
    unpublishedStates: tokenStates,
    feed,
    leases: makeMemoryRenewalLeases(),
    attempts,
    redis: null,
    gate: null,
    memory: { share: () => 0, isNearlyFull: () => false },
    times: () => Promise.resolve([]),
    standing: binding?.standing ?? { objection: () => null },
    look: () => binding?.look() ?? Promise.resolve(),
    connect: () => undefined,
    redisFailure: () => null,
    checkMasters: () => Promise.resolve(),
    check: () => Promise.resolve(),
    close: () => undefined,
  };
}
