import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Test } from 'tap';
import { makeRedisClient, type RedisOptions } from '../../src/infra/redis/connection/open-redis.ts';
import { readRedisUrl, type RedisServer } from '../../src/infra/redis/connection/redis-url.ts';
import type { ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';
import { skipReason } from './environment.ts';

const url = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379';

/** Why the tests that need Redis cannot run here, or false. */
export const redisMissing: false | string = skipReason(
  (await answers())
    ? null
    : `no Redis answers at ${url} (install redis-server and start it, or set TEST_REDIS_URL)`,
);

export interface TestRedis {
  url: string;
  /** The prefix of this test's keys, which are deleted when it ends. */
  prefix: string;
}

/** A unique prefix. */
export function aPrefix(): string {
  return `lk-test-${randomBytes(6).toString('hex')}:`;
}

/** The Redis of this machine with a prefix for one test. */
export function testRedis(t: Test): TestRedis {
  const prefix = aPrefix();
  t.teardown(async () => {
    const redis = new Redis(url);
    await deleteKeys(redis, prefix);
    redis.disconnect();
  });
  return { url, prefix };
}

/** Deletes all keys with a prefix, like an emptied Redis for one test. */
export async function deleteKeys(redis: Redis, prefix: string): Promise<void> {
  for await (const keys of redis.scanStream({ match: `${prefix}*`, count: 1000 }) as AsyncIterable<
    string[]
  >) {
    if (keys.length > 0) await redis.unlink(...keys);
  }
}

async function answers(): Promise<boolean> {
  const redis = new Redis(url, { lazyConnect: true, connectTimeout: 1000, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.ping();
    return true;
  } catch {
    return false;
  } finally {
    redis.disconnect();
  }
}

export function redisServer(given: string): RedisServer {
  const server = readRedisUrl(given);
  if (typeof server === 'string') throw new Error(`REDIS_URL ${server}`);
  return server;
}

type ClientOptions = Omit<RedisOptions, 'server'> & { url: string };

/** The service's client. It ends with the test. Its connection errors are expected; every operation reports them too. */
export function quietRedisClient(t: Test, { url: given, ...options }: ClientOptions): ScriptedRedis {
  const redis = makeRedisClient({ ...options, server: redisServer(given) });
  redis.on('error', () => undefined);
  t.teardown(() => {
    redis.disconnect();
  });
  return redis;
}

/** For stores without recorded revocations. */
const connectionEpoch = {};
export const openGate = { connectionEpoch: () => connectionEpoch, isAdmitted: () => true };

/** Lets time pass for the keys: shortens each TTL by these seconds. */
export async function age(redis: Redis, prefix: string, seconds: number): Promise<void> {
  for (const key of await redis.keys(`${prefix}*`)) {
    const left = await redis.pttl(key);
    if (left < 0) throw new Error(`${key} would stay for ever`);
    if (left <= seconds * 1000) await redis.del(key);
    else await redis.pexpire(key, left - seconds * 1000);
  }
}
