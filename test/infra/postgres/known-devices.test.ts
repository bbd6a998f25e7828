import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { purgeKnownDevices } from '../../../src/infra/postgres/known-devices.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { testRecords } from '../../support/records.ts';
import { ROOM } from '../../support/token.ts';
import { sql } from '../../support/sql.ts';

async function open(t: Test) {
  const records = await testRecords(t);
  const { url, users, tokens } = records;
  const logIn = async (userId: number, client: string) => {
    const session = { name: 'a device', createdAt: Date.now(), state: initialState(1_000_000, client) };
    const added = await tokens.addSession(userId, session, ROOM);
    // The times have milliseconds: two logins in one of them have no order.
    await sleep(2);
    return added;
  };
  const username = async (userId: number) => {
    const [row] = await sql<{ username: string }>(url, 'SELECT username FROM users WHERE id = $1', [userId]);
    return row?.username ?? '';
  };
  return {
    ...records,
    // Of a device without a fingerprint.
    aSession: () => records.aSession(initialState(1_000_000, '')),
    logIn,
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
  const { aSession, logIn, known } = await open(t);
  const [ada, bob] = [await aSession(), await aSession()];
  t.strictSame(await known(ada.userId), []);
  for (const client of ['home', 'work', 'home']) await logIn(ada.userId, client);
  t.strictSame(await known(ada.userId), ['home', 'work']);
  t.strictSame(await known(bob.userId), []);
});

test('by e-mail address or username, and by no other name', async (t) => {
  const { aSession, users, logIn, url } = await open(t);
  const { userId } = await aSession();
  await logIn(userId, 'home');
  const [row] = await sql<{ email: string }>(url, 'SELECT email FROM users');
  const found = await users.findForLogin({ email: row?.email ?? '' });
  t.match(found, { user: { id: userId, disabled: false }, knownCallers: ['home'] });
  t.equal(found?.passwordHash.length, 96);
  t.equal(await users.findForLogin({ username: row?.email ?? '' }), null);
  t.equal(await users.findForLogin({ email: 'unknown@example.com' }), null);
});

test('for 90 days after the last login', async (t) => {
  const { aSession, logIn, known, age } = await open(t);
  const { userId } = await aSession();
  for (const client of ['old', 'older']) await logIn(userId, client);
  await age('old', 89.9);
  await age('older', 90.1);
  t.strictSame(await known(userId), ['old']);
  await logIn(userId, 'older');
  t.strictSame(await known(userId), ['older', 'old']);
});

test('the 20 newest of each user', async (t) => {
  const { aSession, logIn, known, rows, url } = await open(t);
  const [ada, bob] = [await aSession(), await aSession()];
  await logIn(bob.userId, 'bob');
  for (let i = 10; i < 33; i++) await logIn(ada.userId, `d${i}`);
  const expected = Array.from({ length: 20 }, (_, i) => `d${32 - i}`);
  t.strictSame(await known(ada.userId), expected);
  t.strictSame((await rows()).length, 21, 'and no other is kept');
  await logIn(ada.userId, 'd13');
  t.equal((await known(ada.userId))?.length, 20);
  t.strictSame(await known(bob.userId), ['bob']);
  // Left by a login that skipped it because another one held it.
  const more = "INSERT INTO known_devices SELECT $1, 'd' || i, now() FROM generate_series(1, 24) i";
  await sql(url, more, [bob.userId]);
  t.equal((await known(bob.userId))?.length, 20);
});

test('concurrent logins do not block each other', async (t) => {
  const { aSession, logIn, known } = await open(t);
  const { userId } = await aSession();
  for (let round = 0; round < 3; round++)
    await Promise.all(Array.from({ length: 30 }, (_, i) => logIn(userId, `d${(i * 7) % 30}`)));
  t.ok(((await known(userId))?.length ?? 0) >= 20);
});

test('deleting a user deletes the devices, and a device does not block it', async (t) => {
  const { aSession, logIn, rows, url } = await open(t);
  const { userId } = await aSession();
  await logIn(userId, 'home');
  await sql(url, 'DELETE FROM users WHERE id = $1', [userId]);
  t.strictSame(await rows(), []);
  await logIn(userId, 'home');
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
