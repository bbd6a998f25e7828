import { test } from 'tap';
import { faultProxy } from '../support/fault-proxy.ts';
import { logInOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { ready, startService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

async function readiness({ opsUrl }: Service) {
  const response = await fetch(`${opsUrl}/health/ready`);
  const { status, checks } = (await response.json()) as { status: string; checks: Record<string, string> };
  return { code: response.status, status, checks };
}

test('the service waits at startup for a Redis that is down', { skip: redisMissing }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const proxy = await faultProxy(t, redis.url, 'refuse');
  const stores = { DATABASE_URL: url, REDIS_URL: proxy.url, REDIS_PREFIX: redis.prefix };
  const service = await startService(t, stores);
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status, checks.database], [503, 'not ready', 'ok']);
  t.match(checks.sessions, /^Redis fails \(/);
  t.equal((await fetch(`${service.opsUrl}/health/live`)).status, 200, 'the service is alive');
  const early = await logInOver(service.url, 'unknown', 'x'.repeat(8));
  t.ok([401, 503].includes(early.status));
  proxy.set('pass');
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});

test('the service waits at startup for a PostgreSQL that is down', async (t) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url, 'refuse');
  const service = await startService(t, { DATABASE_URL: proxy.url });
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status, checks.sessions], [503, 'not ready', 'ok']);
  t.match(checks.database, /^PostgreSQL fails \(/);
  t.equal((await logInOver(service.url, 'unknown', 'x')).status, 503);
  proxy.set('pass');
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});

test(
  'with only PostgreSQL down, sessions wait for it, and Redis is not blamed',
  { skip: redisMissing },
  async (t) => {
    const { url } = await testDatabase(t);
    const redis = testRedis(t);
    const proxy = await faultProxy(t, url, 'refuse');
    const stores = { DATABASE_URL: proxy.url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix };
    // On a busy machine, Redis may take longer than the default.
    const service = await startService(t, { ...stores, REDIS_TIMEOUT: '5000' });
    // Redis may not be connected at once.
    await until(async () => (await readiness(service)).checks.sessions === 'wait for the database');
    t.match(await readiness(service), { code: 503, checks: { database: /^PostgreSQL fails/ } });
    t.notMatch(service.log(), 'Redis fails');
    proxy.set('pass');
    await ready(service);
  },
);

test('stores that hang at startup do not hang the probes', { skip: redisMissing }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const [database, sessions] = [await faultProxy(t, url, 'hang'), await faultProxy(t, redis.url, 'hang')];
  const stores = { DATABASE_URL: database.url, REDIS_URL: sessions.url, REDIS_PREFIX: redis.prefix };
  const service = await startService(t, stores);
  t.match(await readiness(service), { code: 503, status: 'not ready' });
  t.equal((await fetch(`${service.opsUrl}/health/live`)).status, 200);
  for (const proxy of [database, sessions]) proxy.set('pass');
  await ready(service);
  await signUpOver(service.url);
});

test('with a schema older than the code the service is not ready and says what to do', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const service = await startService(t, { DATABASE_URL: url });
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status], [503, 'not ready']);
  t.match(checks.database, 'npm run migrate');
  const response = await logInOver(service.url, 'ada', 'analytical engine');
  t.equal(response.status, 503);
  t.match(response.headers.get('retry-after'), /^[1-9]/);
  t.match(service.log(), /"msg":"PostgreSQL fails"/);
  t.match(service.log(), /"todo":"[^"]*npm run migrate/);
  const { migrate } = await import('../../src/infra/postgres/migrate.ts');
  await migrate(url);
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});
