import type { FastifyBaseLogger } from 'fastify';
import type { Config } from './config.ts';
import type { SessionStateStore } from './domain/sessions/ports.ts';
import { makeMemorySessionState } from './infra/memory/session-state.ts';
import { makeRedisClient } from './infra/redis/client.ts';
import { makeReplayGate, type ReplayGate } from './infra/redis/replay-gate.ts';
import type { ScriptedRedis } from './infra/redis/scripts.ts';
import { makeRedisSessionState } from './infra/redis/session-state.ts';

/** Where session states live: Redis, or this process. */
export interface States {
  states: SessionStateStore;
  /** null in the embedded default, as is the gate: a process that forgets forgets its tombstones and states at once. */
  redis: ScriptedRedis | null;
  gate: ReplayGate | null;
  close(): void;
}

/** Between two sweeps of the in-process store, in milliseconds. */
const SWEEP_INTERVAL = 60_000;

/** Nothing connects yet. */
export function openStates(config: Config, logger: FastifyBaseLogger): States {
  const cacheTtl = config.SESSION_CACHE_TTL;
  if (config.REDIS_URL === undefined) return openMemory(cacheTtl);

  const redis = makeRedisClient({ url: config.REDIS_URL, timeout: config.REDIS_TIMEOUT });
  logChanges(redis, logger);
  const gate = makeReplayGate(redis);
  const states = makeRedisSessionState(redis, { prefix: config.REDIS_PREFIX, cacheTtl, gate });
  const close = () => {
    redis.disconnect();
  };
  return { states, redis, gate, close };
}

function openMemory(cacheTtl: number): States {
  const now = () => Math.floor((performance.timeOrigin + performance.now()) * 1000);
  const states = makeMemorySessionState({ cacheTtl, now });
  const timer = setInterval(() => {
    states.sweep();
  }, SWEEP_INTERVAL).unref();
  const close = () => {
    clearInterval(timer);
  };
  return { states, redis: null, gate: null, close };
}

/** One line when Redis goes and one when it comes, not one for each attempt. */
function logChanges(redis: ScriptedRedis, logger: FastifyBaseLogger): void {
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
