import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { makeMarks } from '../../../src/infra/installation/marks.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';
import { sql } from '../../support/sql.ts';

/** Two replicas on one database. */
async function twoReplicas(t: Test) {
  const { url } = await testDatabase(t);
  const [one, two] = [openPostgres(t, { url }), openPostgres(t, { url })].map(({ prisma }) =>
    makeMarks(prisma),
  );
  if (!one || !two) throw new Error('none');
  const count = async () => (await sql(url, 'SELECT FROM installation_marks')).length;
  const age = (seconds: number) =>
    sql(url, `UPDATE installation SET at = at - ${seconds} * interval '1 second'`);
  return { url, one, two, count, age };
}

test('of two claims at once, one counts, and Redis gets its id alone', async (t) => {
  const { url, one, two, age } = await twoReplicas(t);
  const mark = await one.add();
  let entered = 0;
  const label = () => {
    entered++;
    return new Promise<boolean>((resolve) => setTimeout(resolve, 300, true));
  };
  const claims = await Promise.all([one.claim(null, mark, label), two.claim(null, mark, label)]);
  t.equal(entered, 1);
  const [id] = claims.filter((claimed) => claimed !== null);
  t.match(await two.read([mark, 'unknown']), { id, newest: mark, before: null, known: new Set([mark]) });
  t.equal(await one.claim(null, mark, label), null, 'PostgreSQL names another one by now');
  t.equal(await one.claim(id ?? '', mark, () => Promise.resolve(false)), null, 'Redis has changed');
  t.equal((await one.read([])).id, id);
  const died = one.claim(id ?? '', mark, () => Promise.reject(new Error('died')));
  await t.rejects(died, /died/);
  t.equal((await one.read([])).id, id);

  const take = () => two.claim(id ?? '', mark, () => Promise.resolve(true), true);
  t.equal(await take(), null, 'a replica has shown meanwhile that it serves');
  await age(31);
  // What the claim waits for may be such a sign.
  const beat = withClient(url, async (client) => {
    await client.query("BEGIN; UPDATE installation SET at = clock_timestamp() WHERE name = 'redis_id'");
    const taken = take();
    await sleep(300);
    await client.query('COMMIT');
    return taken;
  });
  t.equal(await beat, null);
  await age(31);
  t.match(await take(), /./);
});

test('one mark in ten seconds, whatever the number of replicas, and the newest stay', async (t) => {
  const { url, one, two, count, age } = await twoReplicas(t);
  const first = await one.add();
  const id = (await one.claim(null, first, () => Promise.resolve(true))) ?? '';
  const beat = (addsMark = true) =>
    Promise.all([one, two, one, two].map((replica) => replica.beat(id, addsMark)));
  await beat();
  t.equal(await count(), 1, 'the claim was a sign too');
  await age(10);
  await beat();
  t.equal(await count(), 2);
  const recorded = await two.read([first]);
  t.match(recorded, { before: first, known: new Set([first]) });
  t.ok(Number(recorded.quietFor) < 10_000);

  await age(20);
  await beat(false);
  t.equal(await count(), 2);
  t.ok(Number((await one.read([])).quietFor) < 10_000, 'a sign without a mark');
  await age(20);
  await one.beat('another id', true);
  t.equal(await count(), 2, 'of a replica that was left behind');

  await age(-3600);
  await beat();
  t.equal(await count(), 3, 'after a failover to a server whose clock is behind');
  await sql(
    url,
    `INSERT INTO installation_marks SELECT 'old' || i, now() - interval '1 day' - i * interval '1 s'
    FROM generate_series(1, 10100) AS i`,
  );
  await age(20);
  await beat();
  t.equal(await count(), 10_000);
  t.strictSame((await one.read([first, 'old1', 'old10100'])).known, new Set([first, 'old1']));
});
