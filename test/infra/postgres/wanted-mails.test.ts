import { test } from 'tap';
import { MAIL_KINDS, USUAL_MAIL_KINDS } from '../../../src/domain/mail-kinds.ts';
import { makeMailStore, oldestQuery, wantMail } from '../../../src/infra/postgres/wanted-mails.ts';
import { testRecords } from '../../support/records.ts';
import { aRegisteredService } from '../../support/registered-service.ts';
import { sql } from '../../support/sql.ts';

const LIVES = { password_reset: 60, invitation: 60, email_verification: 60, email_change: 60 };

test('the next mails are found by an index among any number of others', async (t) => {
  const { url, aSession, postgres } = await testRecords(t);
  const { userId } = await aSession();
  const add = (count: number, wanted: string, [tries, taken]: [number, string], kind = 'password_reset') =>
    sql(
      url,
      `INSERT INTO wanted_mails (user_id, kind, wanted_at, tries, taken_at)
       SELECT $1, $2, now() - ${wanted}, $3, now() - ${taken} FROM generate_series(1, ${count}) AS n`,
      [userId, kind, tries],
    );
  const never: [number, string] = [0, 'NULL::interval'];
  await add(20_000, "interval '2 hours'", never);
  await add(20_000, "interval '2 hours'", [1, "interval '90 minutes'"]);
  await add(20_000, "interval '20 minutes'", [1, "interval '30 seconds'"]);
  await add(20_000, "interval '20 minutes'", [5, "interval '15 minutes'"]);
  await add(20_000, "interval '55 minutes'", [6, "interval '40 minutes'"]);
  await add(20_000, "interval '20 hours'", never, 'notice');
  await add(20_000, "(interval '10 minutes' - n * interval '1 ms')", [2, "interval '3 minutes'"]);
  await add(3, "(interval '1 minute' - n * interval '1 ms')", never, 'email_verification');
  await sql(url, 'VACUUM ANALYZE wanted_mails');
  const query = oldestQuery(5, USUAL_MAIL_KINDS);
  const found = await postgres.prisma.$queryRaw<{ id: bigint }[]>(query);
  t.strictSame(
    found.map(({ id }) => Number(id)),
    [140_001, 140_002, 140_003, 120_001, 120_002],
    'those that nobody took come first',
  );
  const rows = await sql<{ 'QUERY PLAN': string }>(url, `EXPLAIN (ANALYZE, BUFFERS) ${query.text}`, [
    ...query.values,
  ]);
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  t.match(plan, 'wanted_mails_kind_tries_idx');
  t.notMatch(plan, 'Seq Scan');
  const buffers = Number(/Buffers: shared hit=(\d+)/.exec(plan)?.[1]);
  t.ok(buffers <= 100, `${buffers} buffers`);
});

test('overdue mails are given up once, by one replica', async (t) => {
  const { url, aSession, postgres } = await testRecords(t);
  const { userId } = await aSession();
  const mails = makeMailStore(postgres, LIVES);
  await sql(
    url,
    `INSERT INTO wanted_mails (user_id, kind, wanted_at, tries, taken_at, settled_at) VALUES
      ($1, 'password_reset', now() - interval '61 minutes', 0, NULL, NULL),
      ($1, 'password_reset', now() - interval '61 minutes', 1, now() - interval '1 second', NULL),
      ($1, 'password_reset', now() - interval '61 minutes', 1, now(), now()),
      ($1, 'password_reset', now() - interval '59 minutes', 0, NULL, NULL),
      ($1, 'email_change', now() - interval '59 minutes', 6, now() - interval '33 minutes', NULL),
      ($1, 'email_change', now() - interval '59 minutes', 6, now() - interval '31 minutes', NULL),
      ($1, 'invitation', now() - interval '23 hours', 0, NULL, NULL),
      ($1, 'notice', now() - interval '25 hours', 0, NULL, NULL)`,
    [userId],
  );
  const dropped = await Promise.all([mails.dropOverdue(), mails.dropOverdue()]);
  const expected = ['email_change', 'notice', 'password_reset', 'password_reset'];
  t.strictSame(dropped.flat().sort(), expected);
  t.strictSame(await mails.dropOverdue(), []);
});

test('each kind says how long its oldest mail waits, also one that no mailer takes', async (t) => {
  const { url, aSession, postgres } = await testRecords(t);
  const { userId } = await aSession();
  const mails = makeMailStore(postgres, LIVES);
  await sql(
    url,
    `INSERT INTO wanted_mails (user_id, kind, wanted_at, tries) VALUES
      ($1, 'notice', now() - interval '23 hours', 0), ($1, 'notice', now() - interval '25 hours', 0),
      ($1, 'invitation', now() - interval '1 hour', 6), ($1, 'password_reset', now() - interval '5 minutes', 3)`,
    [userId],
  );
  const none = Object.fromEntries(MAIL_KINDS.map((kind) => [kind, 0]));
  t.strictSame(await mails.oldest(), none, 'nobody waits for a mailer that is not registered');
  await aRegisteredService(url, 'mailer', ['mails']);
  const ages = await mails.oldest();
  const minutes = Object.entries(ages).map(([kind, age]) => [kind, Math.round(age / 60_000)]);
  t.strictSame(Object.fromEntries(minutes), { ...none, notice: 23 * 60, password_reset: 5 });
});

test('ten accounts at once want three mails for one address, in any spelling', async (t) => {
  const { url, aSession, postgres } = await testRecords(t);
  const users: number[] = [];
  for (let i = 0; i < 10; i++) users.push((await aSession()).userId);
  const waits = await Promise.all(
    users.map((id, i) =>
      postgres.prisma.$transaction((tx) =>
        wantMail(tx, BigInt(id), 'email_change', { address: i % 2 ? 'New@Example.com' : 'new@EXAMPLE.com' }),
      ),
    ),
  );
  t.equal(waits.filter((wait) => wait === 0).length, 3);
  t.ok(waits.every((wait) => wait === 0 || (wait > 3_590_000 && wait <= 3_600_000)));
  const rows = await sql(url, "SELECT address_key FROM wanted_mails WHERE kind = 'email_change'");
  t.strictSame(
    rows,
    [1, 2, 3].map(() => ({ address_key: 'new@example.com' })),
  );
});
