import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { refresh, signUp, verify } from '../support/client.ts';
import { redisMissing, testRedis } from '../support/redis.ts';

for (const store of ['memory', 'redis'] as const) {
  test(`a pair works on ${store}`, { skip: store === 'redis' && redisMissing }, async (t) => {
    const redis = store === 'redis' ? testRedis(t) : null;
    const target = await buildTestApp(t, {
      env: redis ? { REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix } : {},
    });
    const pair = await signUp(target);
    t.equal((await verify(target, pair.access_token)).statusCode, 200);
    t.equal((await refresh(target, pair.refresh_token)).statusCode, 200);
    t.equal((await verify(target, pair.access_token)).statusCode, 401);
  });
}
