import { test, type Test } from 'tap';
import { MOST_READERS, NAMELESS, type Confirmation } from '../../../src/domain/enforcement/ports.ts';
import { makeFeedReaders } from '../../../src/infra/postgres/feed-readers.ts';
import { NO_FACTS } from '../../support/confirmation.ts';
import { aRegisteredService, withRegistry } from '../../support/registered-service.ts';
import { testRecords } from '../../support/records.ts';
import { sql } from '../../support/sql.ts';

const HOUR = 3_600_000;

async function aWorld(t: Test) {
  const records = await testRecords(t);
  const store = makeFeedReaders(records.postgres);
  const { serviceId } = await aRegisteredService(records.url, 'shop', ['revocations']);
  const key = (reader: string) => ({ serviceId, reader });
  const aConfirmation = (reader: string, seq: number, more: Partial<Confirmation> = {}): Confirmation => ({
    ...key(reader),
    position: { epoch: 'e', seq },
    ...NO_FACTS,
    ...more,
  });
  const rows = async () =>
    (await store.page(null, 5000)).map(({ reader, position }) => `${reader} ${position?.seq ?? 'none'}`);
  /** Makes rows older. */
  const age = (ms: number, reader: string) =>
    sql(records.url, `UPDATE feed_readers SET seen_at = seen_at - $1 * interval '1 ms' WHERE reader = $2`, [
      ms,
      reader,
    ]);
  return { ...records, store, serviceId, key, aConfirmation, rows, age };
}

test('a confirmation is one row, and dated by the later clock', async (t) => {
  const { url, store, aConfirmation, key, rows } = await aWorld(t);
  const all = {
    instance: 'shop-1',
    software: 's',
    version: '1',
    audience: 'a',
    maxStaleness: 60,
    whenStale: 'refuse' as const,
    keys: ['k1', 'k2'],
  };
  await store.confirm([aConfirmation('b', 7, all), aConfirmation('a', 2 ** 53 - 1)], 0);
  const [a, b] = await store.page(null, 10);
  t.match(b, { ...all, name: 'shop', position: { epoch: 'e', seq: 7 } });
  t.match(a, { instance: null, keys: [], maxStaleness: null, position: { seq: 2 ** 53 - 1 } });
  t.ok(Math.abs(Date.now() - (b?.seenAt ?? 0)) < HOUR / 2, 'PostgreSQL’s clock is the later');
  const ahead = Date.now() + HOUR;
  await store.confirm([aConfirmation('b', 6)], ahead);
  t.strictSame(await rows(), [`a ${2 ** 53 - 1}`, 'b 6'], 'the last one counts, also if it goes back');
  t.match((await store.page(key('a'), 10))[0], { confirmedAt: ahead, seenAt: ahead, keys: [] });
  await withRegistry(url, (registry) => registry.remove('shop'));
  await store.confirm([aConfirmation('b', 8)], 0);
  t.strictSame(await rows(), [], 'a service that is gone keeps nobody, and fails no write');
});

test('a note adds only what is new, and tells what is missing', async (t) => {
  const { store, key, rows, aConfirmation } = await aWorld(t);
  t.strictSame(
    await store.note(
      [
        { ...key('a'), isNew: true },
        { ...key(NAMELESS), isNew: true },
      ],
      0,
    ),
    [],
  );
  t.strictSame(await rows(), [' none', 'a none']);
  await store.confirm([aConfirmation('a', 3)], 0);
  t.strictSame(
    await store.note(
      [
        { ...key('a'), isNew: false },
        { ...key('b'), isNew: false },
      ],
      0,
    ),
    [{ ...key('b'), isNew: false }],
  );
  await store.note([{ ...key('a'), isNew: true }], 0);
  t.strictSame(await rows(), [' none', 'a 3'], 'a position stays');
  t.equal(await store.remove(key('a')), true);
  t.equal(await store.remove(key('a')), false);
  t.strictSame(await rows(), [' none']);
});

test('the longest silent are folded into the nameless row, which is as late as they are', async (t) => {
  const { store, key, rows, aConfirmation, age, serviceId } = await aWorld(t);
  await store.confirm(
    ['a', 'b', 'c', 'd'].map((reader) => aConfirmation(reader, 1)),
    0,
  );
  await age(3000, 'b');
  await age(2000, 'd');
  await store.fold(3);
  t.strictSame(await rows(), [' none', 'a 1', 'c 1', 'd 1']);
  const lastSeen = (await store.page(key('c'), 1))[0]?.seenAt;
  await store.fold(2);
  t.strictSame(await rows(), [' none', 'a 1', 'c 1']);
  t.equal((await store.page(null, 1))[0]?.seenAt, lastSeen);
  t.equal(MOST_READERS, 2000);
  await store.removeSilent(1000, Date.now() + HOUR);
  t.strictSame(await rows(), ['a 1', 'c 1'], 'by the earlier clock');
  await store.confirm([aConfirmation('a', 2, { instance: 'x' })], 0);
  t.equal(await store.forget(serviceId, 'x'), 1);
  t.equal(await store.forget(serviceId, null), 1);
  t.strictSame(await store.servicesWithoutReader('revocations'), [{ serviceId, name: 'shop' }]);
  t.equal(await store.remove(key('a')), false);
});

test('readers are counted by what they have confirmed, and the least is known', async (t) => {
  const { store, key, aConfirmation, age } = await aWorld(t);
  const now = Date.now();
  t.equal(await store.least('e', now), Infinity);
  await store.note([{ ...key(NAMELESS), isNew: true }], 0);
  t.equal(await store.least('e', now), Infinity, 'the nameless confirm nothing');
  await store.confirm([aConfirmation('a', 5), aConfirmation('b', 7), aConfirmation('c', 1)], 0);
  await age(46_000, 'c');
  t.equal(await store.least('e', now), 5);
  const counted = { current: 1, behind: 1, silent: 1, nameless: 1 };
  t.strictSame(await store.tally({ epoch: 'e', seq: 6 }, now), counted);
  await store.note([{ ...key('d'), isNew: true }], 0);
  t.equal(await store.least('e', now), null, 'one has confirmed nothing');
  t.strictSame(await store.tally({ epoch: 'f', seq: 0 }, now), { ...counted, current: 0, behind: 3 });
});

test('the end of a token, of a user’s and of everything is read from the record', async (t) => {
  const { url, store, tokens, revocations, aSession } = await aWorld(t);
  const { userId, tokenId } = await aSession();
  for (const target of [{ token: tokenId }, { token: 9e9 }, { user: userId }])
    t.equal(await store.ended(target), null, 'live or unknown');
  await tokens.revoke(userId, tokenId, 5000);
  const pending = { endedAt: 5000, publishedAt: 0, pending: [tokenId], longLivedUntil: 0 };
  t.strictSame(await store.ended({ token: tokenId }), pending);
  t.strictSame(await store.ended({ user: userId }), pending);
  t.match(await store.ended({ all: true }), { pending: [tokenId], longLivedUntil: null });
  t.equal((await store.look([tokenId])).published.size, 0);
  await revocations.settle([tokenId]);
  const settled = await store.ended({ token: tokenId });
  t.match(settled, { endedAt: 5000, pending: [] });
  t.ok((settled?.publishedAt ?? 0) > 1e12, 'PostgreSQL’s clock is the later');
  t.strictSame([...(await store.look([tokenId])).published], [[tokenId, settled?.publishedAt]]);
  const ahead = Date.now() + HOUR;
  await sql(url, `UPDATE tokens SET revoked_at = to_timestamp($1::float8 / 1000), type = 'llt'`, [ahead]);
  t.match(await store.ended({ token: tokenId }), { publishedAt: ahead, longLivedUntil: null });
  await sql(url, 'UPDATE tokens SET expires_at = to_timestamp(9e9)');
  t.match(await store.ended({ user: userId }), { longLivedUntil: 9e12 });
});
