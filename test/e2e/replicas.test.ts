import { test } from 'tap';
import { claimsOf, type Pair } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { ready, startService } from '../support/service.ts';
import '../support/watch-leaks.ts';

test('two replicas on one PostgreSQL and Redis act as one service', { skip: redisMissing }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const dataDir = testFolder(t);
  const shared = {
    DATABASE_URL: url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    // The keys are shared too: both replicas use those that the first created.
    DATA_DIR: dataDir,
    RATE_LIMIT_SIGNUP: '6/600',
  };
  const [one, two] = [await startService(t, shared), await startService(t, shared)];
  await Promise.all([ready(one), ready(two)]);

  await t.test('the other replica refuses a session right after its logout', async (t) => {
    const pair = await signUpOver(one.url);
    t.equal(await verifyOver(two.url, pair.access_token), 200);
    t.equal(await logOutOver(one.url, pair.access_token), 200);
    t.equal(await verifyOver(two.url, pair.access_token), 401);
    t.equal((await refreshOver(two.url, pair.refresh_token)).status, 401);
  });

  await t.test('a refresh on one replica supersedes the access token on the other', async (t) => {
    const pair = await signUpOver(one.url);
    const next = (await (await refreshOver(two.url, pair.refresh_token)).json()) as Pair;
    t.equal(await verifyOver(one.url, pair.access_token), 401);
    t.equal(await verifyOver(one.url, next.access_token), 200);
  });

  await t.test('a retry on the other replica gets the same pair', async (t) => {
    const pair = await signUpOver(one.url);
    const answers = await Promise.all(
      [one, two, one, two].map(async ({ url }) => (await refreshOver(url, pair.refresh_token)).json()),
    );
    const generations = (answers as Pair[]).map(({ access_token }) => claimsOf(access_token).gen);
    t.equal(new Set(generations).size, 1);
  });

  await t.test('limits count the requests of both replicas', async (t) => {
    const statuses: number[] = [];
    for (const { url } of [one, two, one, two]) {
      statuses.push((await fetch(`${url}/api/auth/signup`, { method: 'POST' })).status);
    }
    t.strictSame(statuses, [400, 400, 400, 429], 'six, including the three above');
  });
});
