import { test, type Test } from 'tap';
import { makeEnforcement } from '../../src/domain/enforcement/enforcement.ts';
import { NAMELESS, type Confirmation } from '../../src/domain/enforcement/ports.ts';
import { makeFeedReaders } from '../../src/infra/postgres/feed-readers.ts';
import type { RunPrepared } from '../../src/infra/postgres/prepared.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { aClient, begun } from '../support/begun.ts';
import { NO_FACTS } from '../support/confirmation.ts';
import { deferred } from '../support/deferred.ts';
import { testRecords } from '../support/records.ts';
import { aRegisteredService, withRegistry } from '../support/registered-service.ts';
import { stopAfter } from '../support/stop-after.ts';

async function aWorld(t: Test) {
  const records = await testRecords(t);
  const { serviceId } = await aRegisteredService(records.url, 'shop', ['revocations']);
  const store = makeFeedReaders(records.postgres);
  const confirmation = (reader: string, seq: number): Confirmation => ({
    serviceId,
    reader,
    position: { epoch: 'e', seq },
    ...NO_FACTS,
  });
  const names = async () => (await store.page(null, 100)).map(({ reader }) => reader);
  return { ...records, serviceId, store, confirmation, names };
}

/** Stops before each statement that has this text. */
function stoppedBefore(run: RunPrepared, text: string) {
  const { promise: reached, resolve: isReached } = deferred();
  const { promise: mayGo, resolve: go } = deferred();
  const stopped: RunPrepared = async (statement, values) => {
    if (statement.text.includes(text)) {
      isReached();
      await mayGo;
    }
    return run(statement, values);
  };
  return { run: stopped, reached, go };
}

test('two replicas write the same readers in any order, and neither fails', async (t) => {
  const { store, postgres, confirmation } = await aWorld(t);
  const other = makeFeedReaders(postgres);
  const readers = Array.from({ length: 20 }, (_, i) => `r${i}`);
  for (let seq = 1; seq <= 20; seq++)
    await Promise.all([
      store.confirm(
        readers.map((reader) => confirmation(reader, seq)),
        0,
      ),
      other.confirm(
        readers.toReversed().map((reader) => confirmation(reader, seq + 100)),
        0,
      ),
      other.note(
        readers.map((reader) => ({ ...confirmation(reader, 0), isNew: seq % 2 === 0 })),
        0,
      ),
      store.fold(10),
    ]);
  const seqs = (await store.page(null, 100)).map(({ reader, position }) => [reader, position?.seq]);
  for (const [reader, seq] of seqs)
    t.ok(reader === NAMELESS || seq === undefined || seq === 20 || seq === 120, `${reader} ${String(seq)}`);
});

test('a reader that confirms while it is folded stays', async (t) => {
  const { store, postgres, confirmation, names } = await aWorld(t);
  await store.confirm([confirmation('a', 1)], 0);
  await store.confirm([confirmation('b', 1)], Date.now() + 1000);
  const fold = stoppedBefore(postgres.run, 'SKIP LOCKED');
  const folding = makeFeedReaders(fold).fold(1);
  await fold.reached;
  t.strictSame(await names(), [NAMELESS, 'a', 'b'], 'it is in both for a moment, and in neither never');
  await store.confirm([confirmation('a', 2)], Date.now() + 2000);
  fold.go();
  await folding;
  t.strictSame(await names(), [NAMELESS, 'a', 'b']);
});

test('a note that comes after a goodbye brings nobody back', async (t) => {
  const { store, postgres, confirmation, names, serviceId } = await aWorld(t);
  await store.confirm([confirmation('a', 1)], 0);
  const note = stoppedBefore(postgres.run, 'UPDATE feed_readers');
  const noting = makeFeedReaders(note).note([{ serviceId, reader: 'a', isNew: false }], 0);
  await note.reached;
  await store.remove({ serviceId, reader: 'a' });
  note.go();
  t.match(await noting, [{ reader: 'a' }]);
  t.strictSame(await names(), []);
});

test('readers that are forgotten while they confirm are locked in the same order', async (t) => {
  const { store, url, confirmation, names, serviceId } = await aWorld(t);
  // In the table, they stand the other way round.
  for (const reader of ['b', 'a']) await store.confirm([confirmation(reader, 1)], 0);
  const [confirming, operator, watch] = [await aClient(t, url), await aClient(t, url), await aClient(t, url)];
  // So does a plan that uses no index.
  await operator.query('SET enable_indexscan = off; SET enable_bitmapscan = off');
  const run: RunPrepared = async <Row>({ text }: { text: string }, values: readonly unknown[]) =>
    (await operator.query(text, [...values])).rows as Row[];
  const lock = 'SELECT FROM feed_readers WHERE (client_id, reader) = ($1, $2) FOR UPDATE';
  await confirming.query('BEGIN');
  await confirming.query(lock, [serviceId, 'a']);
  const forgetting = begun(() => makeFeedReaders({ run }).forget(serviceId, null));
  await forgetting.begin(watch);
  t.notOk(forgetting.isDone(), 'it waits for the first');
  await confirming.query(`${lock} NOWAIT`, [serviceId, 'b']);
  await confirming.query('COMMIT');
  t.equal(await forgetting.result(), 2);
  t.strictSame(await names(), []);
});

test('a service that is deleted while its readers confirm leaves nobody behind', async (t) => {
  const { store, url, confirmation, names, serviceId } = await aWorld(t);
  await aRegisteredService(url, 'other', ['revocations']);
  const [deleting, watch] = [await aClient(t, url), await aClient(t, url)];
  await deleting.query('BEGIN');
  await deleting.query('DELETE FROM service_clients WHERE client_id = $1', [serviceId]);
  const confirming = begun(() => store.confirm([confirmation('a', 1)], 0));
  await confirming.begin(watch);
  t.notOk(confirming.isDone(), 'it waits for the deletion');
  await deleting.query('COMMIT');
  await confirming.result();
  t.strictSame(await names(), []);
  await withRegistry(url, (registry) => registry.remove('other'));
});

test('a token that is settled while somebody asks is published to the asker', async (t) => {
  const { store, tokens, revocations, aSession, confirmation } = await aWorld(t);
  await store.confirm([confirmation('a', 5)], 0);
  const { userId, tokenId } = await aSession();
  await tokens.revoke(userId, tokenId, Date.now());
  const asked = stopAfter((...args: Parameters<typeof store.ended>) => store.ended(...args));
  const end = { epoch: 'e', seq: 5 };
  const { ask } = makeEnforcement({
    store: { ...store, ended: asked.work },
    feed: { fence: () => Promise.resolve(end), end: () => Promise.resolve(end) },
    clock: systemClock,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms).unref()),
    accessTokenTtl: 900,
  });
  const answer = ask({ token: tokenId }, 30);
  await asked.reached;
  await revocations.settle([tokenId]);
  asked.go();
  t.match(await answer, { done: true, counts: { enforced: 1 } });
});
