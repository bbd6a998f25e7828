import { test } from 'tap';
import { goThrough } from '../support/all-operations.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { startService } from '../support/service.ts';
import '../support/watch-leaks.ts';

test('the six operations on the embedded default', async (t) => {
  const service = await startService(t);
  await goThrough(t, service);
  t.match(service.log(), 'DATABASE_URL is not set: using the embedded PostgreSQL');
  t.match(service.log(), /try it: curl -s http:\/\/127\.0\.0\.1:\d+\/api\/auth\/signup/);
  t.equal(await service.stop(), 0);
});

test('the six operations on PostgreSQL and Redis', { skip: redisMissing }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const stores = { DATABASE_URL: url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix };
  const service = await startService(t, stores);
  await goThrough(t, service);
  t.equal(await service.stop(), 0);
});
