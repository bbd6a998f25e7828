import { test } from 'tap';
import { faultProxy } from '../support/fault-proxy.ts';
import { testDatabase } from '../support/postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { strike } from './harness/fault.ts';
import { redisFaults } from './harness/redis-faults.ts';
import { startWorld } from './harness/world.ts';

test('Redis breaks under load', { skip: toolsMissing('redis-server') }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = await startRedis(t);
  const proxy = await faultProxy(t, redis.url);
  const world = await startWorld(t, { DATABASE_URL: url, REDIS_URL: proxy.url });
  await world.recovered(20);
  for (const fault of redisFaults(redis, proxy)) {
    await t.test(fault.name, (t) => strike(t, world, fault));
  }
});
