import { test } from 'tap';
import { anAccount, bearer } from '../support/client.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { logInOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { ready, startService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';

async function readiness({ opsUrl }: Service) {
  const response = await fetch(`${opsUrl}/health/ready`);
  const { status, checks } = (await response.json()) as { status: string; checks: Record<string, string> };
  return { code: response.status, status, checks };
}

test('a Redis that is away at the start is waited for', { skip: redisMissing }, async (t) => {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const proxy = await faultProxy(t, redis.url, 'refuse');
  const stores = { DATABASE_URL: url, REDIS_URL: proxy.url, REDIS_PREFIX: redis.prefix };
  const service = await startService(t, stores);
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status, checks.database], [503, 'not ready', 'ok']);
  t.not(checks.sessions, 'ok');
  t.equal((await fetch(`${service.opsUrl}/health/live`)).status, 200, 'alive all the same');
  const early = await logInOver(service.url, 'nobody', 'x'.repeat(8));
  t.ok([401, 503].includes(early.status));
  proxy.set('pass');
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});

test('a PostgreSQL that is away at the start is waited for', async (t) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url, 'refuse');
  const service = await startService(t, { DATABASE_URL: proxy.url });
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status, checks.sessions], [503, 'not ready', 'ok']);
  t.not(checks.database, 'ok');
  t.equal((await logInOver(service.url, 'nobody', 'x')).status, 503);
  proxy.set('pass');
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});

test('stores that hang at the start do not hang the probes', { skip: redisMissing }, async (t) => {
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

for (const fault of ['refuse', 'hang', 'vanish'] as const) {
  test(`a Redis that goes away later (${fault}) comes back by itself`, { skip: redisMissing }, async (t) => {
    const { url } = await testDatabase(t);
    const redis = testRedis(t);
    const proxy = await faultProxy(t, redis.url);
    const stores = { DATABASE_URL: url, REDIS_URL: proxy.url, REDIS_PREFIX: redis.prefix };
    const service = await startService(t, stores);
    await ready(service);
    const account = anAccount();
    const pair = await signUpOver(service.url, account);
    t.equal(await verifyOver(service.url, pair.access_token), 200);

    proxy.set(fault);
    // The client gives up far later than any answer may take; a hang would be found here.
    const signal = AbortSignal.timeout(10_000);
    const headers = bearer(pair.access_token);
    const answers = await Promise.all(
      ['/api/auth/verify', '/api/user'].map((path) => fetch(`${service.url}${path}`, { headers, signal })),
    );
    for (const answer of answers) {
      t.equal(answer.status, 503);
      t.match(answer.headers.get('retry-after'), /^[1-9]/);
    }
    t.equal((await readiness(service)).code, 200, 'ready stays');
    t.not((await readiness(service)).checks.sessions, 'ok', 'and its body says what is wrong');

    proxy.set('pass');
    await until(async () => (await verifyOver(service.url, pair.access_token)) === 200);
    t.equal((await refreshOver(service.url, pair.refresh_token)).status, 200, 'nobody was signed out');
    t.equal((await logInOver(service.url, account.username, account.password)).status, 200);
    t.equal(await service.stop(), 0);
  });
}

test('a schema that is older than the code is not ready, and says what to do', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const service = await startService(t, { DATABASE_URL: url });
  const { code, status, checks } = await readiness(service);
  t.strictSame([code, status], [503, 'not ready']);
  t.match(checks.database, 'npm run migrate');
  const { migrate } = await import('../../src/infra/postgres/migrate.ts');
  await migrate(url);
  await ready(service);
  await signUpOver(service.url);
  t.equal(await service.stop(), 0);
});
