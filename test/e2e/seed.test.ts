import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { anAccount, type Pair } from '../support/client.ts';
import { anApp } from '../support/factors.ts';
import { testFolder } from '../support/folder.ts';
import { logLines } from '../support/log-lines.ts';
import { logInOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { failedStart, startService, type Service } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

const GRACE = {
  username: 'Grace',
  email: 'Grace@example.com',
  password: 'nanoseconds of copper wire',
  name: 'Grace Hopper',
  roles: ['billing:admin'],
  external_id: 'crm-4711',
  email_verified: true,
};
const ALAN = {
  username: 'alan',
  email: 'alan@example.com',
  password: 'halting problem no. 1',
  totp_secret: 'GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ',
};
const ORDERS = {
  name: 'orders',
  id: 'lkc_orders-of-development0',
  secret: 'known-to-the-whole-team',
  may: ['introspect', 'users.read'],
};

function aSeed(t: Test, users: object[], services: object[] = [ORDERS]): string {
  const file = join(testFolder(t), 'seed.json');
  writeFileSync(file, JSON.stringify({ users, services }));
  return file;
}

async function loggedIn({ url }: Service, { username, password }: typeof ALAN | typeof GRACE): Promise<Pair> {
  const response = await logInOver(url, username, password);
  if (response.status !== 200) throw new Error(`no pair: ${response.status} ${await response.text()}`);
  return (await response.json()) as Pair;
}

const seeded = (service: Service) => logLines(service.log()).filter(({ msg }) => msg === 'seeded');

test('a seed fills the embedded database, and a later start leaves its names as they are', async (t) => {
  const env = { DATA_DIR: testFolder(t) };
  const service = await startService(t, { ...env, SEED_FILE: ` ${aSeed(t, [GRACE, ALAN])}\n` });
  t.match(seeded(service), [{ added: { users: 2, services: 1 }, kept: { users: 0, services: 0 } }]);
  const { access_token: access, user } = await loggedIn(service, GRACE);
  t.match(user, { username: 'grace', name: 'Grace Hopper' });

  const asOrders = basic({ serviceId: ORDERS.id, secret: ORDERS.secret });
  const asked = await fetch(`${service.url}/api/users?external_id=crm-4711`, { headers: asOrders });
  t.match(await asked.json(), { users: [{ id: user.id, roles: ['billing:admin'], email_verified: true }] });
  const body = new URLSearchParams({ token: access });
  const introspected = await fetch(`${service.url}/api/auth/introspect`, {
    method: 'POST',
    headers: asOrders,
    body,
  });
  t.match(await introspected.json(), { active: true, username: 'grace' });

  const first = await logInOver(service.url, ALAN.username, ALAN.password);
  const { code, login_token } = (await first.json()) as { code: string; login_token: string };
  t.equal(code, 'second_factor_required');
  const second = await fetch(`${service.url}/api/auth/second-factor`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ login_token, code: anApp(ALAN.totp_secret)() }),
  });
  t.match(await second.json(), { user: { username: 'alan', name: 'alan' } });
  const audited = logLines(service.log()).filter(({ event }) => event === 'database.seeded');
  t.match(audited, [{ severity: 'warn', actor: { type: 'system' }, details: { users: 2, services: 1 } }]);
  await service.stop();

  const changed = [
    { ...GRACE, password: 'another one for grace' },
    { ...ALAN, username: 'joan', email: 'joan@example.com' },
  ];
  const again = await startService(t, { ...env, SEED_FILE: aSeed(t, changed) });
  t.match(seeded(again), [{ added: { users: 1, services: 0 }, kept: { users: 1, services: 1 } }]);
  await loggedIn(again, GRACE);
  t.equal((await logInOver(again.url, 'grace', 'another one for grace')).status, 401);
  t.equal((await logInOver(again.url, 'joan', ALAN.password)).status, 401, 'with a second factor, too');
  t.equal(await verifyOver(again.url, access), 200);
  await again.stop();
});

test(
  'two replicas that start at once add each name once, and both serve all of them',
  { skip: redisMissing },
  async (t) => {
    const { url } = await testDatabase(t);
    const redis = testRedis(t);
    const users = Array.from({ length: 8 }, (_, i) => ({
      ...GRACE,
      username: `user${i}`,
      email: `u${i}@example.com`,
      external_id: `${i}`,
    }));
    const env = {
      DATABASE_URL: url,
      REDIS_URL: redis.url,
      REDIS_PREFIX: redis.prefix,
      SEED_FILE: aSeed(t, users),
    };
    const replicas = await Promise.all([startService(t, env), startService(t, env)]);
    const added = replicas.flatMap(seeded).map((line) => (line.added as { users: number }).users);
    t.equal(added.length, 2);
    t.equal(
      added.reduce((sum, count) => sum + count),
      users.length,
    );
    const [rows] = await sql<{ users: number; services: number; marks: number }>(
      url,
      `SELECT (SELECT count(*)::int FROM users) AS users, (SELECT count(*)::int FROM service_clients) AS services,
      (SELECT count(*)::int FROM seed_mark) AS marks`,
    );
    t.strictSame({ ...rows }, { users: users.length, services: 1, marks: 1 });
    for (const replica of replicas)
      for (const user of users)
        t.equal((await logInOver(replica.url, user.username, user.password)).status, 200);
  },
);

test('a database with one account or one service gets no seed and no mark', async (t) => {
  const SEED_FILE = aSeed(t, [GRACE]);
  const counts =
    'SELECT (SELECT count(*) FROM users), (SELECT count(*) FROM service_clients), (SELECT count(*) FROM seed_mark)';
  const fill = {
    account: async (env: Record<string, string>) => {
      const service = await startService(t, env);
      await signUpOver(service.url, anAccount());
      await service.stop();
    },
    service: ({ DATABASE_URL = '' }: Record<string, string>) => aRegisteredService(DATABASE_URL),
  };
  for (const [what, begin] of Object.entries(fill)) {
    const { url } = await testDatabase(t);
    // Both starts need the same keys.
    const env = { DATABASE_URL: url, DATA_DIR: testFolder(t) };
    await begin(env);
    const before = await sql(url, counts);
    const { code, stderr } = await failedStart(t, { ...env, SEED_FILE });
    t.equal(code, 1, what);
    t.match(stderr, /^SEED_FILE: the database holds accounts or services that no seed has added/, what);
    t.notMatch(stderr, /^\s+at /m, 'no stack');
    t.strictSame(await sql(url, counts), before, what);
  }
});

test('a refused password or the secret of a real service ends the start, which shows neither', async (t) => {
  const refused = { ...ALAN, password: 'passwordpassword' };
  const secret = `lks_${'s3cr3t-of-production'.repeat(2)}`;
  const SEED_FILE = aSeed(t, [GRACE, refused], [{ ...ORDERS, secret }]);
  const { code, stdout, stderr } = await failedStart(t, { SEED_FILE });
  t.equal(code, 1);
  t.equal(stdout, '');
  t.match(stderr, /- SEED_FILE: users\[1\]\.password is one of the commonest/);
  t.match(stderr, /- SEED_FILE: services\[0\]\.secret must have/);
  t.notMatch(stderr, /passwordpassword|s3cr3t/);
});
