import type { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { makeRedisAttemptSlots } from '../../../src/infra/redis/attempt-slots.ts';
import { attemptSlotsContract } from '../../contract/attempt-slots.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { until } from '../../support/until.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

/** A closed gate: attempts count even before the revocations are replayed. */
const CLOSED = { connectionEpoch: () => null, isAdmitted: () => true };

async function open(t: Test) {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  return {
    slots: makeRedisAttemptSlots(redis, { prefix, gate: CLOSED, observe: UNOBSERVED }),
    redis,
    prefix,
    pass: (ms: number) => age(redis, prefix, ms),
  };
}

/** Lets time pass: makes each attempt older and shortens each key's TTL. */
async function age(redis: Redis, prefix: string, ms: number): Promise<void> {
  for (const key of await redis.keys(`${prefix}*`)) {
    const left = (await redis.pttl(key)) - ms;
    const attempts = (await redis.get(key)) ?? '';
    if (left <= 0) await redis.del(key);
    else {
      const older = attempts.replace(/(\d+):/g, (_, at: string) => `${Number(at) - ms}:`);
      await redis.set(key, older, 'PX', left);
    }
  }
}

attemptSlotsContract('redis', open, redisMissing);

test('a key lasts for as long as its newest attempt counts', { skip: redisMissing }, async (t) => {
  const { slots, redis, prefix, pass } = await open(t);
  const allowance = { count: 3, seconds: 60 };
  const clock = async () => Number((await redis.time())[0]) * 1000;
  const before = await clock();
  await slots.reserve('a:b', allowance);
  const key = `${prefix}attempts:a:b`;
  t.strictSame(await redis.keys(`${prefix}*`), [key]);
  const at = Number((await redis.get(key))?.split(':')[0]);
  t.ok(at >= before && at <= (await clock()) + 1000, `${at}: Redis’s own time, in milliseconds`);
  const fresh = await redis.pttl(key);
  t.ok(fresh > 50_000 && fresh <= 60_000, `${fresh}`);
  await pass(30_000);
  await slots.reserve('a:b', allowance);
  t.ok((await redis.pttl(key)) > 50_000);
  const last = await slots.reserve('a:b', allowance);
  await pass(30_000);
  await slots.release('a:b', 'slot' in last ? last.slot : '');
  const left = await redis.pttl(key);
  t.ok(left > 15_000 && left <= 30_000, `${left}: as long as before`);
});

test('nothing is kept for a counter without attempts', { skip: redisMissing }, async (t) => {
  const { slots, redis, prefix } = await open(t);
  const reserved = await slots.reserve('a', { count: 1, seconds: 60 });
  await slots.release('a', 'slot' in reserved ? reserved.slot : '');
  await slots.release('b', 'x');
  t.strictSame(await redis.keys(`${prefix}*`), []);
});

test('a clock that went back frees nothing', { skip: redisMissing }, async (t) => {
  const { slots, pass } = await open(t);
  const allowance = { count: 2, seconds: 60 };
  await slots.reserve('a', allowance);
  await pass(-5000);
  await slots.reserve('a', allowance);
  const reserved = await slots.reserve('a', allowance);
  t.ok(
    'freeIn' in reserved && reserved.freeIn > 55_000 && reserved.freeIn <= 65_000,
    JSON.stringify(reserved),
  );
});

test('with Redis away there is no slot', { skip: redisMissing }, async (t) => {
  const { slots, redis } = await open(t);
  redis.disconnect();
  await t.rejects(slots.reserve('a', { count: 1, seconds: 60 }), { code: 'unavailable' });
  await t.rejects(slots.release('a', 'x'), { code: 'unavailable' });
});

test('a slot that was taken too late to be told of is given back', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const proxy = await faultProxy(t, url);
  const redis = quietRedisClient(t, { url: proxy.url, timeout: 200 });
  await redis.connect();
  const slots = makeRedisAttemptSlots(redis, { prefix, gate: CLOSED, observe: UNOBSERVED });
  const allowance = { count: 1, seconds: 60 };
  // The server has both scripts.
  const before = await slots.reserve('a', allowance);
  await slots.release('a', 'slot' in before ? before.slot : '');
  proxy.set('hang');
  await t.rejects(slots.reserve('a', allowance), { code: 'unavailable' });
  proxy.set('pass');
  await until(async () => {
    const reserved = await slots.reserve('a', allowance).catch(() => ({ freeIn: 0 }));
    return 'slot' in reserved;
  });
  t.pass('a slot is free');
});
