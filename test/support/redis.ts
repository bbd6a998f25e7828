import { randomBytes } from 'node:crypto';
import { Redis } from 'ioredis';
import type { Test } from 'tap';
import { makeRedisClient, type RedisOptions } from '../../src/infra/redis/client.ts';
import type { ScriptedRedis } from '../../src/infra/redis/scripts.ts';
import { leaveOut } from './environment.ts';

const url = process.env.TEST_REDIS_URL ?? 'redis://127.0.0.1:6379';

/** Why the tests that need Redis cannot run here; false where they can. */
export const redisMissing: false | string = leaveOut(
  (await answers())
    ? null
    : `no Redis answers at ${url} (install redis-server and start it, or set TEST_REDIS_URL)`,
);

export interface TestRedis {
  url: string;
  /** Keys of this test alone; they are deleted when it ends. */
  prefix: string;
}

/** A prefix that no other test has. */
export function aPrefix(): string {
  return `lk-test-${randomBytes(6).toString('hex')}:`;
}

/** A corner of the Redis at hand for one test. */
export function testRedis(t: Test): TestRedis {
  const prefix = aPrefix();
  t.teardown(async () => {
    const redis = new Redis(url);
    await deleteKeys(redis, prefix);
    redis.disconnect();
  });
  return { url, prefix };
}

/** Forgets everything under a prefix: an emptied Redis, for one test. */
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

/** A client of ours; its connection errors are expected, and every operation says them again. */
export function quietRedisClient(options: RedisOptions): ScriptedRedis {
  const redis = makeRedisClient(options);
  redis.on('error', () => undefined);
  return redis;
}

/** For stores that no revocation was ever recorded for. */
const passage = {};
export const openGate = { passage: () => passage };

/** Time passing as the keys feel it: each has so many seconds less to live. */
export async function age(redis: Redis, prefix: string, seconds: number): Promise<void> {
  for (const key of await redis.keys(`${prefix}*`)) {
    const left = await redis.pttl(key);
    if (left < 0) throw new Error(`${key} would stay for ever`);
    if (left <= seconds * 1000) await redis.del(key);
    else await redis.pexpire(key, left - seconds * 1000);
  }
}
