import { test, type Test } from 'tap';
import { Redis } from 'ioredis';
import { buildTestApp, type TestApp } from '../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
  type Pair,
} from '../support/client.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { logLines } from '../support/log-lines.ts';
import { testDatabase } from '../support/postgres.ts';
import { refused } from '../support/problem.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { redisServersMissing, startRedis } from '../support/redis-server.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';

/** SESSION_CACHE_TTL's default, in seconds. */
const CACHE_TTL = 3600;

const sessionOf = ({ access_token: token }: Pair) => Number(claimsOf(token).sid);

async function logOut(t: Test, app: TestApp, { access_token: token }: Pair): Promise<void> {
  t.equal((await call(app, 'DELETE /api/auth', { token })).statusCode, 200);
}

/** The status once the session store is ready. */
async function served(app: TestApp, { access_token: token }: Pair): Promise<number> {
  for (;;) {
    const { statusCode } = await verify(app, token);
    if (statusCode !== 503) return statusCode;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test('a tombstone lost on an open connection is set again', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const env = { REDIS_URL: url, REDIS_PREFIX: prefix };
  const app = await buildTestApp(t, { env });
  // A replica that knows nothing of the session: write-behind of its state would find the revocation too.
  const other = await buildTestApp(t, { env, databaseUrl: app.databaseUrl });
  const pair = await signUp(app);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  const [key = ''] = await redis.keys(`${prefix}*:t:${sessionOf(pair)}`);
  const live = await redis.dumpBuffer(key);
  await logOut(t, app, pair);
  refused(t, await verify(app, pair.access_token), 401, 'invalid_token');

  await redis.restore(key, CACHE_TTL * 1000, live, 'REPLACE');
  t.equal(
    (await verify(app, pair.access_token)).statusCode,
    200,
    'as after a failover that no replica noticed',
  );
  other.composition.start();
  await until(async () => (await verify(app, pair.access_token)).statusCode === 401);
  t.notMatch(other.log(), 'Redis', 'its connection stayed open');
});

test('a replica that disagrees with its installation changes no store', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const { url: databaseUrl } = await testDatabase(t);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  const settings = { DATABASE_URL: databaseUrl, REDIS_URL: url, REDIS_PREFIX: prefix };
  await t.test('before', async (t) => {
    const env = { ...settings, ISSUER: 'https://auth.example.com' };
    const { composition } = await buildTestApp(t, { databaseUrl, env });
    composition.start();
    await until(async () => (await redis.keys(`${prefix}*renewer`)).length > 0);
  });
  // Any replica of the installation would say at once that it serves.
  await sql(databaseUrl, "UPDATE installation SET at = at - interval '1 minute'");
  const stored = async () => {
    const keys = (await redis.keys(`${prefix}*`)).sort();
    return {
      keys: await Promise.all(keys.map(async (key) => [key, (await redis.dumpBuffer(key)).toString('hex')])),
      installation: await sql(databaseUrl, 'SELECT * FROM installation ORDER BY name'),
      marks: await sql(databaseUrl, 'SELECT * FROM installation_marks ORDER BY at'),
    };
  };
  const before = await stored();
  const odd = await buildTestApp(t, {
    databaseUrl,
    env: { ...settings, ISSUER: 'https://auth.example.com/' },
    storesAnswer: false,
  });
  odd.composition.start();
  await until(() => odd.log().includes('disagrees with its installation'));
  // Each background task had its turn.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  t.strictSame(await stored(), before);
});

test('a replica that stops leaves its lease to the next one', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  const holder = async () => {
    const [lease] = await redis.keys(`${prefix}*renewer`);
    return lease === undefined ? null : await redis.hget(lease, 'replica');
  };
  await t.test('while it runs', async (t) => {
    const { composition } = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
    composition.start();
    await until(async () => (await holder()) !== null);
    t.not(await holder(), '');
  });
  t.equal(await holder(), '');
});

test(
  'a new connection gets the tombstones that a snapshot lost',
  { skip: redisServersMissing },
  async (t) => {
    const redis = await startRedis(t);
    const app = await buildTestApp(t, {
      env: { REDIS_URL: redis.url, SESSION_CACHE_TTL: String(CACHE_TTL) },
    });
    const old = await signUp(app);
    const [pending, live] = [await logIn(app, old.user.username), await logIn(app, old.user.username)];
    await redis.ask('SAVE');
    await logOut(t, app, old);
    await sql(
      app.databaseUrl,
      "UPDATE tokens SET settled_at = settled_at - $2 * interval '1 s' WHERE id = $1",
      [
        sessionOf(old),
        // Just inside the replayed period.
        2 * CACHE_TTL - 300,
      ],
    );
    // The state left by a replica that was killed before it set the tombstone.
    await sql(app.databaseUrl, 'UPDATE tokens SET revoked_at = now(), pending = true WHERE id = $1', [
      sessionOf(pending),
    ]);

    // No background task runs, so only the new connection can have set the tombstones.
    await redis.kill();
    await until(async () => (await verify(app, live.access_token)).statusCode === 503);
    await redis.start();
    t.equal(await served(app, live), 200);
    t.equal(await served(app, old), 401, 'settled long ago');
    t.equal(await served(app, pending), 401, 'not settled yet');
  },
);

test(
  'a replica that connects to a full Redis serves the tokens that Redis holds, and ends every token',
  { skip: redisServersMissing },
  async (t) => {
    const redis = await startRedis(t, { args: ['--maxmemory-policy', 'noeviction'] });
    const env = { REDIS_URL: redis.url, DATA_DIR: t.testdir() };
    const first = await buildTestApp(t, { env });
    const service = await aRegisteredService(first.databaseUrl, 'desk', ['users.write']);
    const account = anAccount();
    const held = await signUp(first, account);
    const idle = await logIn(first, account.username);
    const ended = await signUp(first);
    for (const { access_token } of [held, idle, ended]) await verify(first, access_token);
    const { longlived_token: llt } = await createLongLived(first, held.access_token);
    await logOut(t, first, ended);
    const gone = [`*:t:${sessionOf(idle)}`, `*{${ended.user.id}}:*`];
    for (const pattern of gone) await redis.ask('DEL', ...((await redis.ask('KEYS', pattern)) as string[]));
    await redis.ask('CONFIG', 'SET', 'maxmemory', '1');

    const replica = await buildTestApp(t, { env, databaseUrl: first.databaseUrl });
    t.equal((await verify(replica, held.access_token)).statusCode, 200);
    t.equal((await verify(replica, llt)).statusCode, 200);
    refused(t, await verify(replica, ended.access_token), 401, 'invalid_token');
    refused(t, await refresh(replica, ended.refresh_token), 401, 'invalid_token');
    const change = { headers: basic(service), payload: { roles: ['admin'] } };
    t.equal((await call(replica, `PATCH /api/users/${held.user.id}`, change)).statusCode, 200);
    const token = held.access_token;
    t.equal((await call(replica, `DELETE /api/auth/${sessionOf(idle)}`, { token })).statusCode, 200);
    refused(t, await verify(replica, idle.access_token), 401, 'invalid_token');
  },
);

test('a theft found while PostgreSQL is down is recorded soon after', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const direct = (await testDatabase(t)).url;
  const postgres = await faultProxy(t, direct);
  const app = await buildTestApp(t, {
    env: { REDIS_URL: url, REDIS_PREFIX: prefix, REFRESH_RETRY_WINDOW: '0' },
    databaseUrl: postgres.url,
  });
  const pair = await signUp(app);
  const next = pairOf(await refresh(app, pair.refresh_token));
  t.equal((await verify(app, next.access_token)).statusCode, 200);

  postgres.set('refuse');
  refused(t, await refresh(app, pair.refresh_token), 401, 'token_reused');
  const revoked = () => sql(direct, 'SELECT id FROM tokens WHERE revoked_at IS NOT NULL');
  t.strictSame(await revoked(), [], 'the record could not be written');
  postgres.set('pass');
  app.composition.start();
  await until(async () => (await revoked()).length === 1);
  refused(t, await verify(app, next.access_token), 401, 'invalid_token');
});

test(
  'a failing replay is logged once with its cause, and its end once',
  { skip: redisServersMissing },
  async (t) => {
    const redis = await startRedis(t);
    const postgres = await faultProxy(t, (await testDatabase(t)).url);
    const app = await buildTestApp(t, { env: { REDIS_URL: redis.url }, databaseUrl: postgres.url });
    const pair = await signUp(app);
    postgres.set('refuse');
    await redis.ask('CLIENT', 'KILL', 'TYPE', 'normal');
    // Each try reads the mark in Redis before it queries PostgreSQL.
    await redis.ask('CONFIG', 'RESETSTAT');
    const tries = async () =>
      Number(/cmdstat_get:calls=(\d+)/.exec(String(await redis.ask('INFO', 'commandstats')))?.[1] ?? 0);
    await until(async () => (await tries()) >= 5);
    const reasons = logLines(app.log())
      .filter(({ msg }) => String(msg).startsWith('revocations cannot be replayed'))
      .map(({ reason }) => String(reason));
    t.match(reasons[0], /^unavailable: \w+/, 'names the cause of the outage');
    t.strictSame(
      reasons,
      reasons.filter((reason, i) => reason !== reasons[i - 1]),
      'only changes',
    );
    t.notMatch(app.log(), 'revocations are replayed');

    postgres.set('pass');
    t.equal(await served(app, pair), 200);
    t.match(app.log(), 'revocations are replayed');
  },
);
