import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { makeKnownDeviceStore, purgeKnownDevices } from '../../../src/infra/postgres/known-devices.ts';
import { aClient, begun } from '../../support/begun.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

async function open(t: Test) {
  const records = await testRecords(t);
  const { url, users, postgres } = records;
  const store = makeKnownDeviceStore(postgres);
  const devices = {
    ...store,
    // The times have milliseconds: two logins in one of them have no order.
    remember: async (userId: number, client: string) => {
      await store.remember(userId, client, false);
      await sleep(2);
    },
  };
  const username = async (userId: number) => {
    const [row] = await sql<{ username: string }>(url, 'SELECT username FROM users WHERE id = $1', [userId]);
    return row?.username ?? '';
  };
  return {
    ...records,
    devices,
    known: async (userId: number) =>
      (await users.findForLogin({ username: await username(userId) }))?.knownCallers,
    rows: async () =>
      (await sql<{ client: string }>(url, 'SELECT client FROM known_devices ORDER BY client')).map(
        ({ client }) => client,
      ),
    age: (client: string, days: number) =>
      sql(
        url,
        'UPDATE known_devices SET last_login_at = now() - make_interval(hours => $2) WHERE client = $1',
        [client, Math.round(days * 24)],
      ),
  };
}

test('the login query returns the known devices, latest first', async (t) => {
  const { aSession, devices, known } = await open(t);
  const [ada, bob] = [await aSession(), await aSession()];
  t.strictSame(await known(ada.userId), []);
  for (const client of ['home', 'work', 'home']) await devices.remember(ada.userId, client);
  t.strictSame(await known(ada.userId), ['home', 'work']);
  t.strictSame(await known(bob.userId), []);
});

test('by e-mail address or username, and by no other name', async (t) => {
  const { aSession, users, devices, url } = await open(t);
  const { userId } = await aSession();
  await devices.remember(userId, 'home');
  const [row] = await sql<{ email: string }>(url, 'SELECT email FROM users');
  const found = await users.findForLogin({ email: row?.email ?? '' });
  t.match(found, { user: { id: userId, disabled: false }, knownCallers: ['home'] });
  t.equal(found?.passwordHash.length, 96);
  t.equal(await users.findForLogin({ username: row?.email ?? '' }), null);
  t.equal(await users.findForLogin({ email: 'unknown@example.com' }), null);
});

test('for 90 days after the last login', async (t) => {
  const { aSession, devices, known, age } = await open(t);
  const { userId } = await aSession();
  for (const client of ['old', 'older']) await devices.remember(userId, client);
  await age('old', 89.9);
  await age('older', 90.1);
  t.strictSame(await known(userId), ['old']);
  await devices.remember(userId, 'older');
  t.strictSame(await known(userId), ['older', 'old']);
});

test('the 20 newest of each user', async (t) => {
  const { aSession, devices, known, rows, url } = await open(t);
  const [ada, bob] = [await aSession(), await aSession()];
  await devices.remember(bob.userId, 'bob');
  for (let i = 10; i < 33; i++) await devices.remember(ada.userId, `d${i}`);
  const expected = Array.from({ length: 20 }, (_, i) => `d${32 - i}`);
  t.strictSame(await known(ada.userId), expected);
  t.strictSame((await rows()).length, 21, 'and no other is kept');
  await devices.remember(ada.userId, 'd13');
  t.equal((await known(ada.userId))?.length, 20);
  t.strictSame(await known(bob.userId), ['bob']);
  // Left by a login that skipped it because another one held it.
  const more = "INSERT INTO known_devices SELECT $1, 'd' || i, now() FROM generate_series(1, 24) i";
  await sql(url, more, [bob.userId]);
  t.equal((await known(bob.userId))?.length, 20);
});

test('concurrent logins do not block each other', async (t) => {
  const { aSession, devices, known } = await open(t);
  const { userId } = await aSession();
  for (let round = 0; round < 3; round++)
    await Promise.all(Array.from({ length: 30 }, (_, i) => devices.remember(userId, `d${(i * 7) % 30}`)));
  t.ok(((await known(userId))?.length ?? 0) >= 20);
});

test('no device is known by a factor that is removed at the same time', async (t) => {
  const { aSession, postgres, url } = await open(t);
  const { userId } = await aSession();
  const [removal, watch] = [await aClient(t, url), await aClient(t, url)];
  await sql(url, 'UPDATE users SET factor_since = now()');
  const store = makeKnownDeviceStore(postgres);
  const login = begun(() => store.remember(userId, 'home', true));
  await removal.query('BEGIN');
  await removal.query('UPDATE users SET factor_since = NULL');
  await login.begin(watch);
  await removal.query('UPDATE known_devices SET with_factor = false');
  await removal.query('COMMIT');
  await login.result();
  t.match(await sql(url, 'SELECT with_factor FROM known_devices'), [{ with_factor: false }]);
});

test('deleting a user deletes the devices, and a device does not block it', async (t) => {
  const { aSession, devices, rows, url } = await open(t);
  const { userId } = await aSession();
  await devices.remember(userId, 'home');
  await sql(url, 'DELETE FROM users WHERE id = $1', [userId]);
  t.strictSame(await rows(), []);
  await devices.remember(userId, 'home');
  t.strictSame(await rows(), []);
});

test('a purge continues over several pages', async (t) => {
  const { aSession, postgres, rows, url } = await open(t);
  const users = [(await aSession()).userId, (await aSession()).userId];
  await sql(
    url,
    `INSERT INTO known_devices SELECT u, 'd' || i, now() - interval '1 day' * (89 + i % 2 * 2)
     FROM unnest($1::bigint[]) u, generate_series(1, 1250) i`,
    [users],
  );
  t.equal(await purgeKnownDevices(postgres.prisma), 1250);
  t.equal((await rows()).length, 1250);
});
