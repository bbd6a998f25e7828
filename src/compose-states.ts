import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';
import type { RevocationFeed } from './domain/feed/ports.ts';
import { withPublishing } from './domain/feed/publishing.ts';
import type { Observe } from './domain/metrics/observe.ts';
import type { SessionStateStore } from './domain/sessions/ports.ts';
import type { Tracer } from './domain/tracing/tracer.ts';
import { makeMemoryRevocationFeed } from './infra/memory/revocation-feed.ts';
import { makeMemorySessionState } from './infra/memory/session-state.ts';
import { makeRedisClient } from './infra/redis/client.ts';
import { makeRedisCluster } from './infra/redis/cluster.ts';
import { makeConnections } from './infra/redis/connections.ts';
import { makeReplayGate, type ReplayGate } from './infra/redis/replay-gate.ts';
import { makeRedisRevocationFeed } from './infra/redis/revocation-feed.ts';
import type { ScriptedCluster, ScriptedRedis } from './infra/redis/scripts.ts';
import { traceStates } from './infra/tracing/traced.ts';
import { makeRedisSessionState } from './infra/redis/session-state.ts';

/** Where session states live: Redis, or this process. */
export interface States {
  /** Every tombstone that it sets is published. */
  states: SessionStateStore;
  /** The same without that. */
  unpublished: SessionStateStore;
  feed: RevocationFeed;
  /** null in the embedded default, as is the gate: a process that forgets forgets its tombstones and states at once. */
  redis: ScriptedRedis | ScriptedCluster | null;
  gate: ReplayGate | null;
  connect(): void;
  /** That every master takes writes. @throws AuthError `unavailable` */
  check(): Promise<void>;
  close(): void;
}

/** Between two sweeps of the in-process store, in milliseconds. */
const SWEEP_INTERVAL = 60_000;

/** Nothing connects yet. */
export function openStates(
  config: Config,
  logger: FastifyBaseLogger,
  observe: Observe,
  tracer: Tracer | null,
): States {
  const cacheTtl = config.SESSION_CACHE_TTL;
  if (config.REDIS_URL === undefined) return openMemory(cacheTtl, observe);

  const redis = makeSessionRedis(config, config.REDIS_URL);
  logChanges(redis, logger);
  const connections = makeConnections(redis, config.REDIS_PREFIX);
  const gate = makeReplayGate(connections);
  const options = { prefix: config.REDIS_PREFIX, gate, observe };
  const states = makeRedisSessionState(redis, { ...options, cacheTtl });
  const unpublished = tracer ? traceStates(states, tracer) : states;
  const feed = makeRedisRevocationFeed(redis, options);
  return {
    states: withPublishing(unpublished, feed),
    unpublished,
    feed,
    redis,
    gate,
    connect: () => {
      // A failure is logged like every later one, and tried again.
      redis.connect().catch(() => undefined);
    },
    check: () => connections.check(),
    close: () => {
      redis.disconnect();
    },
  };
}

/** The client that REDIS_MODE asks for. */
export function makeSessionRedis(config: Config, url: string): ScriptedRedis | ScriptedCluster {
  const { REDIS_SENTINEL_NAME: name, REDIS_SENTINEL_USERNAME: username } = config;
  const sentinel =
    name === undefined ? {} : { sentinel: { name, username, password: config.REDIS_SENTINEL_PASSWORD } };
  const options = {
    url,
    nodes: config.REDIS_NODES,
    ca: config.REDIS_CA,
    timeout: config.REDIS_TIMEOUT,
    ...sentinel,
  };
  return config.REDIS_MODE === 'cluster' ? makeRedisCluster(options) : makeRedisClient(options);
}

function openMemory(cacheTtl: number, observe: Observe): States {
  const now = () => Math.floor((performance.timeOrigin + performance.now()) * 1000);
  const states = makeMemorySessionState({ cacheTtl, now });
  const feed = makeMemoryRevocationFeed({
    newEpoch: () => crypto.randomUUID(),
    now: () => performance.now(),
    observe,
  });
  const timer = setInterval(() => {
    states.sweep();
  }, SWEEP_INTERVAL).unref();
  const close = () => {
    clearInterval(timer);
  };
  return {
    states: withPublishing(states, feed),
    unpublished: states,
    feed,
    redis: null,
    gate: null,
    connect: () => undefined,
    check: () => Promise.resolve(),
    close,
  };
}

/** One line when Redis goes and one when it comes, not one for each attempt. */
function logChanges(redis: ScriptedRedis | ScriptedCluster, logger: FastifyBaseLogger): void {
  let isReachable: boolean | undefined;
  redis.on('error', (error: NodeJS.ErrnoException) => {
    if (isReachable !== false) logger.warn({ reason: error.code ?? error.name }, 'Redis cannot be reached');
    isReachable = false;
  });
  redis.on('ready', () => {
    if (isReachable === false) logger.info('Redis is back');
    isReachable = true;
  });
}
