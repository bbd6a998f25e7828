import { test, type Test } from 'tap';
import { Redis } from 'ioredis';
import { buildTestApp, type TestApp } from './support/app.ts';
import { call, claimsOf, logIn, pairOf, refresh, signUp, verify, type Pair } from './support/client.ts';
import { faultProxy } from './support/fault-proxy.ts';
import { logLines } from './support/log-lines.ts';
import { testDatabase } from './support/postgres.ts';
import { refused } from './support/problem.ts';
import { redisMissing, testRedis } from './support/redis.ts';
import { redisServersMissing, startRedis } from './support/redis-server.ts';
import { sql } from './support/sql.ts';
import { until } from './support/until.ts';

/** SESSION_CACHE_TTL's default, in seconds. */
const CACHE_TTL = 3600;

const sessionOf = ({ access_token: token }: Pair) => Number(claimsOf(token).sid);

async function logOut(t: Test, app: TestApp, { access_token: token }: Pair): Promise<void> {
  t.equal((await call(app, 'DELETE /api/auth', { token })).statusCode, 200);
}

/** The status once sessions are served. */
async function served(app: TestApp, { access_token: token }: Pair): Promise<number> {
  for (;;) {
    const { statusCode } = await verify(app, token);
    if (statusCode !== 503) return statusCode;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test(
  'a tombstone that was lost on a connection which stands is set again',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const env = { REDIS_URL: url, REDIS_PREFIX: prefix };
    const app = await buildTestApp(t, { env });
    // One that has seen nothing of the session: write-behind of its state would find the revocation as well.
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
      'as after a failover that nobody has seen',
    );
    other.composition.start();
    await until(async () => (await verify(app, pair.access_token)).statusCode === 401);
    t.notMatch(other.log(), 'Redis', 'its connection stood all the while');
  },
);

test(
  'a new connection is told of what a snapshot has forgotten',
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
        // Just inside of what is replayed.
        2 * CACHE_TTL - 300,
      ],
    );
    // As by a replica that was killed before it could set the tombstone.
    await sql(app.databaseUrl, 'UPDATE tokens SET revoked_at = now(), pending = true WHERE id = $1', [
      sessionOf(pending),
    ]);

    // Nothing runs beside the requests: what is set, the new connection has set.
    await redis.kill();
    await until(async () => (await verify(app, live.access_token)).statusCode === 503);
    await redis.start();
    t.equal(await served(app, live), 200);
    t.equal(await served(app, old), 401, 'settled long ago');
    t.equal(await served(app, pending), 401, 'not settled yet');
  },
);

test('a theft found while PostgreSQL is away is on record soon after', { skip: redisMissing }, async (t) => {
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
  t.strictSame(await revoked(), [], 'it could not be written');
  postgres.set('pass');
  app.composition.start();
  await until(async () => (await revoked()).length === 1);
  refused(t, await verify(app, next.access_token), 401, 'invalid_token');
});

test('why nothing can be replayed is logged once, and its end', { skip: redisServersMissing }, async (t) => {
  const redis = await startRedis(t);
  const postgres = await faultProxy(t, (await testDatabase(t)).url);
  const app = await buildTestApp(t, { env: { REDIS_URL: redis.url }, databaseUrl: postgres.url });
  const pair = await signUp(app);
  postgres.set('refuse');
  await redis.ask('CLIENT', 'KILL', 'TYPE', 'normal');
  // Each try writes to Redis before it asks PostgreSQL.
  for (let tries = 0; tries < 5; tries++) {
    await until(async () => (await redis.ask('DEL', 'latchkey:writable')) === 1);
  }
  const reasons = logLines(app.log())
    .filter(({ msg }) => String(msg).startsWith('revocations cannot be replayed'))
    .map(({ reason }) => String(reason));
  t.match(reasons[0], /^unavailable: \w+/, 'says what is behind the outage');
  t.strictSame(
    reasons,
    reasons.filter((reason, i) => reason !== reasons[i - 1]),
    'only changes',
  );
  t.notMatch(app.log(), 'revocations are replayed');

  postgres.set('pass');
  t.equal(await served(app, pair), 200);
  t.match(app.log(), 'revocations are replayed');
});
