import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { bearer, headerOf, type Pair } from '../support/client.ts';
import { valueOf } from '../support/exposition.ts';
import { aFeedClient } from '../support/feed-reader.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { logInOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { ready, startService, type Service } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const skip = { skip: redisMissing };

async function anInstallation(t: Test) {
  const { url } = await testDatabase(t);
  const redis = testRedis(t);
  const env = {
    DATABASE_URL: url,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    ISSUER: 'https://auth.example.com',
    REFRESH_TOKEN_SECRET: aSecret(),
    KEY_PUBLISH_LEAD: '0',
  };
  const start = (more: Record<string, string> = {}) => startService(t, { ...env, ...more });
  /** Until a replica has recorded with which key it signs. */
  const recorded = () =>
    until(async () => {
      const signed = 'SELECT count(*)::int AS count FROM signing_keys WHERE signed_at IS NOT NULL';
      return (await sql<{ count: number }>(url, signed))[0]?.count === 2;
    });
  return { url, redis, env, start, recorded };
}

/** Everything that replicas store, but for what those that agree renew: signs of life, mark, lease, and the feed's end. */
async function stored(url: string, { url: redisUrl, prefix }: { url: string; prefix: string }) {
  const redis = new Redis(redisUrl);
  const keys = (await redis.keys(`${prefix}*`))
    .filter((key) => !/serving$|mark$|renewer|feed/.test(key))
    .sort();
  const values = await Promise.all(keys.map((key) => redis.dumpBuffer(key)));
  redis.disconnect();
  const rows = await Promise.all(
    [
      'SELECT * FROM users',
      'SELECT * FROM tokens',
      'SELECT name, value FROM installation',
      'SELECT kid FROM signing_keys',
    ].map((query) =>
      sql(url, `SELECT md5(string_agg(one::text, ',' ORDER BY one::text)) AS sum FROM (${query}) AS one`),
    ),
  );
  return { keys: keys.map((key, i) => [key, values[i]?.toString('hex')]), rows };
}

async function healthOf({ opsUrl }: Service) {
  const response = await fetch(`${opsUrl}/health/ready`);
  return { code: response.status, ...((await response.json()) as { installation: string }) };
}

/** Each answer has to be 503, so that clients keep their sessions and come back. */
async function refusesAll(t: Test, { url }: Service, { access_token, refresh_token }: Pair): Promise<void> {
  const answers = {
    refresh: await refreshOver(url, refresh_token),
    verify: await fetch(`${url}/api/auth/verify`, { headers: bearer(access_token) }),
    logout: await fetch(`${url}/api/auth`, { method: 'DELETE', headers: bearer(access_token) }),
    login: await logInOver(url, 'ada', 'a wrong password'),
    keys: await fetch(`${url}/.well-known/jwks.json`),
  };
  for (const [name, { status, headers }] of Object.entries(answers)) {
    t.equal(status, 503, name);
    t.match(headers.get('retry-after'), /^\d+$/, name);
  }
}

async function refreshed(service: Service, { refresh_token }: Pair): Promise<Pair> {
  const response = await refreshOver(service.url, refresh_token);
  if (response.status !== 200) throw new Error(`no pair: ${response.status} ${await response.text()}`);
  return (await response.json()) as Pair;
}

test(
  'a replica with a wrong setting or key serves nothing, changes nothing and says why',
  skip,
  async (t) => {
    const { url, redis, start, recorded } = await anInstallation(t);
    const [one, two] = [await start(), await start()];
    await Promise.all([ready(one), ready(two), recorded()]);
    const pairs = [await signUpOver(one.url), await signUpOver(two.url)];
    // Until the write-behind of both has ended.
    await sleep(2500);

    const before = await stored(url, redis);
    const odd = Object.entries({
      ISSUER: { env: { ISSUER: 'https://auth.example.com/' }, why: /^ISSUER: .*slash at the end/ },
      AUDIENCE: { env: { AUDIENCE: 'latchkey2' }, why: /^AUDIENCE: it is latchkey2 here and latchkey in/ },
      'the refresh secret': {
        env: { REFRESH_TOKEN_SECRET: aSecret() },
        why: /^REFRESH_TOKEN_SECRET: the secret /,
      },
      'the signing keys': { env: { DATA_DIR: testFolder(t) }, why: /^SIGNING_KEYS_DIR: the key / },
    });
    const started = await Promise.all(
      odd.map(async ([name, { env, why }]) => ({ name, why, service: await start(env) })),
    );
    for (const { name, why, service } of started)
      await t.test(name, async (t) => {
        t.match(await healthOf(service), { code: 503, installation: why });
        t.match(service.log(), 'this replica disagrees with its installation');
        for (const pair of pairs) await refusesAll(t, service, pair);
      });
    // Long enough for the background tasks.
    await sleep(2500);
    t.strictSame(await stored(url, redis), before, 'while they run');
    for (const { service } of started) t.equal(await service.stop(), 0);
    t.strictSame(await stored(url, redis), before, 'after their end');
    for (const [i, pair] of pairs.entries()) {
      const next = await refreshed(i ? one : two, pair);
      t.equal(await verifyOver(one.url, next.access_token), 200);
    }
  },
);

test('a replica with another lifetime serves, and says so', skip, async (t) => {
  const { env, start } = await anInstallation(t);
  const [one, odd] = [await start(), await start({ REFRESH_TOKEN_TTL: '7200' })];
  await Promise.all([ready(one), ready(odd)]);
  const differs = async ({ opsUrl }: Service) =>
    valueOf(await (await fetch(`${opsUrl}/metrics`)).text(), 'latchkey_setting_differs', {
      setting: 'REFRESH_TOKEN_TTL',
    });
  t.strictSame([await differs(one), await differs(odd)], [0, 1]);
  t.match(odd.log(), /REFRESH_TOKEN_TTL: it is 7200 here and 2592000 in the installation/);
  t.notMatch(one.log(), /REFRESH_TOKEN_TTL/);
  const doctor = await latchkey(['doctor'], { ...env, REFRESH_TOKEN_TTL: '7200', SCRYPT_LOG_N: '4' });
  t.match(doctor.stdout, /^warn {2}settings of the installation: REFRESH_TOKEN_TTL: it is 7200 here/m);
});

test('a new refresh secret signs nobody out, also where it is not there yet', skip, async (t) => {
  const { env, start, recorded } = await anInstallation(t);
  const old = env.REFRESH_TOKEN_SECRET;
  const next = aSecret();
  const one = await start();
  await Promise.all([ready(one), recorded()]);
  const two = await start({ REFRESH_TOKEN_SECRET: `${next},${old}` });
  await ready(two);
  const first = await signUpOver(one.url);
  const second = await refreshed(two, first);
  t.not(headerOf(second.refresh_token).kid, headerOf(first.refresh_token).kid);
  const there = await refreshOver(one.url, second.refresh_token);
  t.equal(there.status, 503, 'a replica without the secret');
  t.match(there.headers.get('retry-after'), /^\d+$/);
  const [, ...rest] = second.refresh_token.split('.');
  const header = { ...headerOf(second.refresh_token), kid: 'AAAAAAAAAAAAAAAA' };
  const invented = [Buffer.from(JSON.stringify(header)).toString('base64url'), ...rest].join('.');
  t.equal((await refreshOver(one.url, invented)).status, 401, 'an invented key');
  const third = await refreshed(two, second);
  t.equal(await verifyOver(one.url, third.access_token), 200);

  // A leaked secret goes by a rollout of replicas without it, which has to be said.
  const without = await start({ REFRESH_TOKEN_SECRET: next });
  const kid = String(headerOf(first.refresh_token).kid);
  t.match(await healthOf(without), { code: 503, installation: new RegExp(`--retire ${kid}`) });
  t.match(await latchkey(['settings', 'accept', '--retire', kid], env), { code: 0 });
  await ready(without);
  const other = await signUpOver(one.url);
  t.equal((await refreshOver(without.url, other.refresh_token)).status, 401, 'signed by the retired secret');
  t.equal((await refreshed(without, third)).user.id, first.user.id);
});

test(
  'a replica whose installation changes while it serves stops, ends its streams, and comes back',
  skip,
  async (t) => {
    const { url, start } = await anInstallation(t);
    const one = await start();
    await ready(one);
    const pair = await signUpOver(one.url);
    const reader = aFeedClient(t, {
      url: () => one.url,
      ...basic(await aRegisteredService(url)),
    });
    await until(() => reader.events.some(({ event }) => event === 'heartbeat'));
    const set = (issuer: string) =>
      sql(url, `UPDATE installation SET value = $1 WHERE name = 'ISSUER'`, [issuer]);
    await set('https://other.example.com');
    await until(() => !reader.isConnected());
    await refusesAll(t, one, pair);
    await set('https://auth.example.com');
    await ready(one);
    t.equal(await verifyOver(one.url, pair.access_token), 200);
  },
);
