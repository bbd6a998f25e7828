import { test } from 'tap';
import { watchedApp } from '../../support/redis-app.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';

const skip = redisServersMissing;

test('Redis is slow to load its data', { skip }, async (t) => {
  const redis = await startRedis(t);
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  await redis.ask('DEBUG', 'POPULATE', '20000', 'else');
  await redis.ask('SAVE');
  await app.revokeOne();
  await redis.kill();
  await redis.start('--key-load-delay', '200', '--loading-process-events-interval-bytes', '1024');
  t.equal(await redis.info('loading'), '1');
  await app.sees(503);
  await app.good();
  t.equal(await redis.info('loading'), '0');
  await app.over();
});
