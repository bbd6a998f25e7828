import { test, type Test } from 'tap';
import { makeKeyRegistry } from '../../../src/infra/postgres/key-registry.ts';
import { makeInstallationRecord } from '../../../src/infra/installation/record.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

const LEAD = 600;

async function aRegistry(t: Test) {
  const { url, postgres } = await testRecords(t);
  /** A replica, which remembers its own reports. */
  const aReplica = () => {
    const registry = makeKeyRegistry(postgres.prisma, LEAD);
    let told: string[] = [];
    return async (loaded: string[], signing: string | null = null) => {
      const appeared = loaded.filter((kid) => !told.includes(kid));
      const vanished = told.filter((kid) => !loaded.includes(kid));
      told = loaded;
      const notes = { loaded, appeared, vanished, signing, refresh: 'secret' };
      const active = [...(await registry.note(notes))].sort();
      return active.filter((kid) => kid !== 'secret');
    };
  };
  const join = (kid: string, isAlone = false) => {
    const notes = {
      loaded: [kid],
      appeared: [kid],
      vanished: [],
      signing: null,
      refresh: `secret of ${kid}`,
    };
    return makeKeyRegistry(postgres.prisma, LEAD, isAlone).join(notes, [kid, notes.refresh], false);
  };
  const inUse = (sinceLast = false) => makeKeyRegistry(postgres.prisma, LEAD).inUse(sinceLast);
  const retire = (kid: string) => makeInstallationRecord(postgres.prisma).retire(kid);
  const pass = (seconds: number) =>
    sql(
      url,
      `UPDATE signing_keys SET first_seen_at = first_seen_at - $1 * interval '1 second',
        published_at = published_at - $1 * interval '1 second', signed_at = signed_at - $1 * interval '1 second'`,
      [seconds],
    );
  const rowOf = async (kid: string) =>
    (await sql<Record<string, Date | null>>(url, 'SELECT * FROM signing_keys WHERE kid = $1', [kid]))[0];
  return { aReplica, join, pass, rowOf, inUse, retire };
}

test('the first replica’s keys may sign at once, later keys after the lead', async (t) => {
  const { aReplica, pass, rowOf } = await aRegistry(t);
  const [one, two] = [aReplica(), aReplica()];
  t.strictSame(await one(['b', 'a']), ['a', 'b']);
  t.match(await rowOf('a'), { first_seen_at: null, published_at: null, signs_since: Date });
  t.strictSame(await two(['c', 'b', 'a']), ['a', 'b']);
  await pass(LEAD - 5);
  t.strictSame(await one(['b', 'a']), ['a', 'b'], 'a replica without the file');
  t.strictSame(await two(['c', 'b', 'a']), ['a', 'b']);
  await pass(5);
  t.strictSame(await two(['c', 'b', 'a']), ['a', 'b', 'c']);
});

test('a key does not sign while a JWKS without it may be cached, counted from the last replica', async (t) => {
  const { aReplica, pass } = await aRegistry(t);
  const [one, two, three] = [aReplica(), aReplica(), aReplica()];
  for (const replica of [one, two, three]) await replica(['a']);
  await one(['b', 'a']);
  await pass(400);
  t.strictSame(await two(['b', 'a']), ['a']);
  await pass(300);
  t.strictSame(await one(['b', 'a']), ['a'], '700 s after the first, and 300 s after the second');
  t.strictSame(await three(['b', 'a']), ['a'], 'too late to delay it further');
  await pass(300);
  t.strictSame(await one(['b', 'a']), ['a', 'b']);
  t.strictSame(await aReplica()(['b', 'a']), ['a', 'b'], 'a signing key is not delayed');
});

test('replicas that keep starting do not keep a key from signing', async (t) => {
  const { aReplica, pass } = await aRegistry(t);
  const one = aReplica();
  await one(['a']);
  await one(['b', 'a']);
  let waited = 0;
  while ((await aReplica()(['b', 'a'])).length === 1 && waited < 10 * LEAD) {
    await pass(100);
    waited += 100;
  }
  t.ok(waited > LEAD && waited <= 2 * LEAD, `after ${waited} s`);
});

test('the lead starts again for a key that a replica has lost', async (t) => {
  const { aReplica, pass } = await aRegistry(t);
  const [one, two] = [aReplica(), aReplica()];
  await one(['a']);
  await one(['b', 'a']);
  await two(['b', 'a']);
  await pass(LEAD);
  t.strictSame(await two(['b', 'a']), ['a', 'b']);
  t.strictSame(await one(['a']), ['a']);
  t.strictSame(await two(['b', 'a']), ['a'], 'it signs nowhere');
  t.strictSame(await one(['b', 'a']), ['a']);
  await pass(LEAD);
  t.strictSame(await one(['b', 'a']), ['a', 'b']);
});

test('if no key may sign, the lowest may at once', async (t) => {
  const { aReplica } = await aRegistry(t);
  const one = aReplica();
  await one(['a']);
  t.strictSame(await one(['c', 'b']), ['b']);
});

test('many replicas at once agree', async (t) => {
  const { aReplica, pass } = await aRegistry(t);
  const replicas = Array.from({ length: 8 }, aReplica);
  const all = (kids: string[]) => Promise.all(replicas.map((replica) => replica(kids)));
  for (const active of await all(['b', 'a'])) t.strictSame(active, ['a', 'b']);
  for (const active of await all(['d', 'c', 'b', 'a'])) t.strictSame(active, ['a', 'b']);
  await pass(LEAD);
  for (const active of await all(['d', 'c', 'b', 'a'])) t.strictSame(active, ['a', 'b', 'c', 'd']);
});

test('of replicas with different keys that begin at once, one begins', async (t) => {
  const { join, rowOf } = await aRegistry(t);
  const answers = await Promise.all(['a', 'b', 'c', 'd'].map((kid) => join(kid)));
  const joined = answers.filter(({ missing }) => missing.length === 0);
  t.equal(joined.length, 1);
  const [first] = [...(joined[0]?.active ?? [])];
  t.ok((await rowOf(String(first)))?.signed_at, 'recorded before it signs');
  for (const { missing, active } of answers.filter((each) => each !== joined[0])) {
    t.strictSame(missing.map(({ kind }) => kind).sort(), ['refresh', 'signing']);
    t.equal(active.size, 0);
  }
  t.match(await join('e', true), { missing: [] }, 'no other replica can be there');
});

test('a retired key counts again if a replica begins with it once it has been silent for 70 s', async (t) => {
  const { join, pass, inUse, retire } = await aRegistry(t);
  await join('a');
  await retire('a');
  await retire('secret of a');
  await join('a');
  t.strictSame(await inUse(), [], 'an old replica restarts during the rollout');
  await pass(71);
  await join('a');
  t.equal((await inUse()).length, 2);
});

test('the signing key is recorded once a minute', async (t) => {
  const { aReplica, pass, rowOf } = await aRegistry(t);
  const one = aReplica();
  await one(['b', 'a'], null);
  t.equal((await rowOf('b'))?.signed_at, null);
  await one(['b', 'a'], 'b');
  const first = (await rowOf('b'))?.signed_at;
  t.ok(first);
  await one(['b', 'a'], 'b');
  t.strictSame((await rowOf('b'))?.signed_at, first);
  await pass(61);
  await one(['b', 'a'], 'b');
  t.ok(((await rowOf('b'))?.signed_at ?? 0) > (first ?? 0));
  t.equal((await rowOf('a'))?.signed_at, null);
});

test('keys are in use for 70 s after the last record of it, unless they are retired', async (t) => {
  const { aReplica, pass, rowOf, inUse, retire } = await aRegistry(t);
  const replica = aReplica();
  const kidsInUse = async (sinceLast?: boolean) =>
    (await inUse(sinceLast)).map(({ kid, kind }) => `${kind} ${kid}`).sort();
  await replica(['b', 'a']);
  t.strictSame(await kidsInUse(), ['refresh secret'], 'on record before it signs');
  await replica(['b', 'a'], 'b');
  t.strictSame(await kidsInUse(), ['refresh secret', 'signing b']);
  const first = await rowOf('secret');
  await replica(['b', 'a'], 'b');
  t.strictSame(await rowOf('secret'), first, 'not written again within a minute');
  await pass(61);
  await replica(['b', 'a'], 'b');
  t.strictSame(await kidsInUse(), ['refresh secret', 'signing b']);
  t.ok(await retire('secret'));
  t.ok(await retire('secret'), 'again');
  t.notOk(await retire('invented'));
  t.strictSame(await kidsInUse(), ['signing b']);
  await pass(71);
  t.strictSame(await kidsInUse(), []);
  t.strictSame(await kidsInUse(true), ['signing b'], 'after an outage, those of the last record');
  await pass(-3600);
  t.strictSame(await kidsInUse(), [], 'the clock of another server was ahead');
  t.strictSame(await kidsInUse(true), ['signing b']);
  await replica(['b', 'a'], 'b');
  t.strictSame(await kidsInUse(), ['signing b'], 'recorded anew');
});
