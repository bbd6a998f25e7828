import { test } from 'tap';
import { faultProxy } from '../support/fault-proxy.ts';
import { startPostgres } from '../support/own-postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { strike } from './harness/fault.ts';
import { postgresFaults } from './harness/postgres-faults.ts';
import { startWorld } from './harness/world.ts';

test('PostgreSQL breaks under load', { skip: redisMissing }, async (t) => {
  const postgres = await startPostgres(t);
  const proxy = await faultProxy(t, postgres.url());
  const { url, prefix } = testRedis(t);
  const world = await startWorld(t, { DATABASE_URL: proxy.url, REDIS_URL: url, REDIS_PREFIX: prefix });
  await world.recovered(20);
  for (const fault of postgresFaults(postgres, proxy)) {
    await t.test(fault.name, (t) => strike(t, world, fault));
  }
});
