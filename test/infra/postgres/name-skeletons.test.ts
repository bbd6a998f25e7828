import { test, type Test } from 'tap';
import { skeletonOf } from '../../../src/domain/users/confusables.ts';
import { fillSkeletons, inspectSkeletons } from '../../../src/infra/postgres/name-skeletons.ts';
import { withClient } from '../../support/postgres.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';
import { until } from '../../support/until.ts';

/** Accounts of an earlier release, in the order of their ids. */
async function olderAccounts(t: Test, usernames: string[]) {
  const records = await testRecords(t);
  const add = (names: string[]) =>
    sql(
      records.url,
      `INSERT INTO users (username, email, name, password_hash)
       SELECT name, name || '@example.com', 'Ada', '' FROM unnest($1::text[]) WITH ORDINALITY AS given(name, place)
       ORDER BY place`,
      [names],
    );
  await add(usernames);
  const skeletons = async () => {
    const rows = await sql<{ username: string; username_skeleton: string | null }>(
      records.url,
      'SELECT username, username_skeleton FROM users ORDER BY id',
    );
    return Object.fromEntries(rows.map((row) => [row.username, row.username_skeleton]));
  };
  const idOf = async (username: string) => {
    const [row] = await sql<{ id: string }>(records.url, 'SELECT id FROM users WHERE username = $1', [
      username,
    ]);
    return Number(row?.id);
  };
  return { ...records, prisma: records.postgres.prisma, pool: records.postgres.pool, add, skeletons, idOf };
}

const session = {
  name: 'a device',
  createdAt: Date.now(),
  state: { latest: 9e6, parent: 0, first: 9e6, confirmed: false, client: '' },
};
const newUser = (username: string) => ({
  username,
  email: `new-${username}@example.com`,
  name: 'Ada',
  passwordHash: new Uint8Array(96),
});

test('every account gets a skeleton, and only the oldest of those that look alike', async (t) => {
  const { prisma, pool, skeletons, idOf, add } = await olderAccounts(t, ['ada', 'рау', 'pay', 'раγ', 'zoë']);
  t.strictSame(await inspectSkeletons(pool), { missing: 5, colliding: [] });
  const colliding = [await idOf('pay'), await idOf('раγ')];
  t.strictSame(await fillSkeletons(prisma), { filled: 3, colliding });
  t.strictSame(await skeletons(), { ada: 'ada', рау: 'pay', pay: null, раγ: null, zoë: 'zoe\u0308' });
  t.strictSame(await inspectSkeletons(pool), { missing: 2, colliding });
  t.strictSame(await fillSkeletons(prisma), { filled: 0, colliding }, 'a second run is a no-op');

  await add(['bob', 'ѕсоре']);
  t.strictSame(
    await fillSkeletons(prisma),
    { filled: 2, colliding },
    'and a run resumes where the last one stopped',
  );
});

test('an older account takes the skeleton from a newer one that signed up first', async (t) => {
  const { users, prisma, skeletons, idOf } = await olderAccounts(t, ['рау']);
  await users.addWithSession(newUser('pay'), session);
  t.strictSame(await skeletons(), { рау: null, pay: 'pay' });
  t.strictSame(await fillSkeletons(prisma), { filled: 1, colliding: [await idOf('pay')] });
  t.strictSame(await skeletons(), { рау: 'pay', pay: null });
  t.strictSame(await fillSkeletons(prisma), { filled: 0, colliding: [await idOf('pay')] });
});

test('two runs share the work without blocking each other', async (t) => {
  const names = Array.from({ length: 1200 }, (_, index) => `ünder-${index}`);
  const { prisma, pool } = await olderAccounts(t, names);
  const both = await Promise.all([fillSkeletons(prisma), fillSkeletons(prisma)]);
  t.equal(both[0].filled + both[1].filled, 1200);
  t.strictSame(await inspectSkeletons(pool), { missing: 0, colliding: [] });
});

test('a signup commits between the read and the update', async (t) => {
  const { url, prisma, skeletons, idOf } = await olderAccounts(t, ['рау']);
  await withClient(url, async (client) => {
    await client.query('BEGIN');
    await client.query(
      `INSERT INTO users (username, username_skeleton, email, name, password_hash)
       VALUES ('pay', 'pay', 'racing@example.com', 'Ada', '')`,
    );
    const filling = fillSkeletons(prisma);
    await until(async () => {
      const waiting = await sql(
        url,
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
      );
      return waiting.length === 1;
    });
    await client.query('COMMIT');
    t.strictSame(await filling, { filled: 1, colliding: [await idOf('pay')] });
  });
  t.strictSame(await skeletons(), { рау: 'pay', pay: null });
});

test('an ASCII account of an earlier release blocks look-alike names', async (t) => {
  const { users } = await olderAccounts(t, ['pay']);
  t.equal(await users.findTaken({ username: 'рау', email: 'free@example.com' }), 'username_taken');
  t.equal(await users.findTaken({ username: 'ада', email: 'pay@example.com' }), 'email_taken');
  t.equal(await users.findTaken({ username: 'ада', email: 'free@example.com' }), null);
});

test('the index decides between two concurrent signups', async (t) => {
  const { users, skeletons } = await olderAccounts(t, []);
  const answers = await Promise.allSettled(
    ['рау', 'pay', 'раγ'].map((name) => users.addWithSession(newUser(name), session)),
  );
  t.equal(answers.filter(({ status }) => status === 'fulfilled').length, 1);
  for (const answer of answers)
    if (answer.status === 'rejected') t.match(answer.reason, { code: 'username_taken' });
  const [name = ''] = Object.keys(await skeletons());
  t.strictSame(await skeletons(), { [name]: skeletonOf(name) });
});
