import { test, type Test } from 'tap';
import { movableClock } from '../../support/faketime.ts';
import { watchedApp } from '../../support/redis-app.ts';
import { redisServersMissing, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { toolsMissing } from '../../support/tools.ts';

const skip = redisServersMissing || toolsMissing('faketime', 'env');

/** How far Redis's clock is ahead, in whole seconds. */
async function ahead(redis: RedisServer): Promise<number> {
  const [seconds] = (await redis.ask('TIME')) as [string];
  return Math.round(Number(seconds) + 0.5 - Date.now() / 1000);
}

async function jumps(t: Test, first: number, second: number): Promise<void> {
  const clock = movableClock(t);
  const redis = await startRedis(t, { env: clock.env });
  const app = await watchedApp(t, { REDIS_URL: redis.url });
  await app.good();
  for (const offset of [first, second]) {
    clock.ahead(offset);
    t.equal(await ahead(redis), offset, `the clock says ${offset} s`);
    await app.good();
    await app.revokeOne();
    await app.good();
  }
  await app.over();
  t.equal(app.outages(), 0, 'no outage was reported');
}

test("Redis's clock jumps 5 s back, then forward", { skip }, (t) => jumps(t, -5, 0));
test("Redis's clock jumps 5 s forward, then back", { skip }, (t) => jumps(t, 5, 0));
