import { test } from 'tap';
import { oldestQuery } from '../../../src/infra/postgres/wanted-mails.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

test('the next mails are found by an index among any number of others', async (t) => {
  const { url, aSession, postgres } = await testRecords(t);
  const { userId } = await aSession();
  const add = (count: number, wanted: string, taken: string) =>
    sql(
      url,
      `INSERT INTO wanted_mails (user_id, kind, wanted_at, taken_at)
       SELECT $1, 'password_reset', now() - ${wanted}, now() - ${taken} FROM generate_series(1, ${count}) AS n`,
      [userId],
    );
  await add(20_000, "interval '2 hours'", 'NULL::interval');
  await add(20_000, "interval '2 hours'", "interval '90 minutes'");
  await add(20_000, "interval '20 minutes'", "interval '30 seconds'");
  await add(20_000, "(interval '10 minutes' - n * interval '1 ms')", "interval '2 minutes'");
  await add(3, "(interval '1 minute' - n * interval '1 ms')", 'NULL::interval');
  await sql(url, 'VACUUM ANALYZE wanted_mails');
  const query = oldestQuery(5);
  const found = await postgres.prisma.$queryRaw<{ id: bigint }[]>(query);
  t.strictSame(
    found.map(({ id }) => Number(id)),
    [80_001, 80_002, 80_003, 60_001, 60_002],
    'those that nobody took come first',
  );
  const rows = await sql<{ 'QUERY PLAN': string }>(url, `EXPLAIN (ANALYZE, BUFFERS) ${query.text}`, [
    ...query.values,
  ]);
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  t.match(plan, 'wanted_mails_takeable_idx');
  t.notMatch(plan, 'Seq Scan');
  const buffers = Number(/Buffers: shared hit=(\d+)/.exec(plan)?.[1]);
  t.ok(buffers <= 50, `${buffers} buffers`);
});
