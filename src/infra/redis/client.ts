import { Redis } from 'ioredis';
import { defineScripts, type ScriptedRedis } from './scripts.ts';

export interface RedisOptions {
  url: string;
  /** How long one command may take, in milliseconds. */
  timeout: number;
}

/**
 * A client that fails at once while Redis is away instead of queueing, so that requests are answered 503 within their
 * time, and that goes on trying to come back.
 * Whoever makes it listens to its `error` events: they are expected while Redis is away.
 */
export function makeRedisClient({ url, timeout }: RedisOptions): ScriptedRedis {
  const redis = new Redis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    connectTimeout: timeout,
    commandTimeout: timeout,
    enableAutoPipelining: true,
    retryStrategy: (attempt) => Math.min(attempt * 50, 500),
  });
  return defineScripts(redis);
}
