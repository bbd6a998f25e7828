import { test } from 'tap';
import type { TokenKey } from '../../../src/domain/principal.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../../src/domain/tokens/write-behind.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { memoryRecords } from '../../support/records.ts';

/** Write-behind over records that a test can stop, with every batch that it wrote. */
function aWorld() {
  const records = memoryRecords();
  const { writer } = records;
  const batches: number[][] = [];
  let answered = Infinity;
  let meanwhile = () => undefined as unknown;
  const asked = (ids: number[]) => {
    meanwhile();
    if (batches.length >= answered) throw new AuthError('unavailable');
    batches.push(ids);
  };
  const clock = aClock();
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: () => Date.now() * 1000 });
  let isFastAway = false;
  const ended: TokenKey[] = [];
  const queues = someQueues(clock);
  const writeBehind = makeWriteBehind({
    ...queues,
    tokenStates: {
      revokeAll: (keys) => {
        if (isFastAway) return Promise.reject(new AuthError('unavailable'));
        ended.push(...keys);
        return tokenStates.revokeAll(keys);
      },
    },
    revocations: records.revocations,
    clock,
    writer: {
      saveStates: async (batch) => {
        asked(batch.map(({ tokenId }) => tokenId));
        return writer.saveStates(batch);
      },
      saveUses: async (uses) => {
        asked(uses.map(({ tokenId }) => tokenId));
        return writer.saveUses(uses);
      },
      saveReportedUses: async (uses) => {
        asked(uses.map(({ tokenId }) => tokenId));
        return writer.saveReportedUses(uses);
      },
    },
  });
  /** The records answer this many more times, then fail. */
  const answer = (times: number) => {
    answered = batches.length + times;
  };
  /** Runs while the next batch is written. */
  const during = (work: () => unknown) => {
    meanwhile = () => {
      meanwhile = () => undefined;
      work();
    };
  };
  const cutOff = (away: boolean) => {
    isFastAway = away;
  };
  return { ...records, tokenStates, writeBehind, batches, ended, answer, during, cutOff, clock, queues };
}

const byNumber = (a: number, b: number) => a - b;

test('each session is written once, in its newest state', async (t) => {
  const { aSession, stateOf, writeBehind, batches } = aWorld();
  const [a, b] = [await aSession(), await aSession()];
  writeBehind.note(b, initialState(2e6, ''));
  for (const latest of [2e6, 4e6, 3e6]) writeBehind.note(a, initialState(latest, ''));
  t.equal(writeBehind.size(), 2);
  await writeBehind.flush();
  t.equal(writeBehind.size(), 0);
  t.strictSame(batches, [[a.tokenId, b.tokenId]], 'in the order of ids');
  t.strictSame(await stateOf(a.tokenId), initialState(4e6, ''));
  t.strictSame(await stateOf(b.tokenId), initialState(2e6, ''));
  await writeBehind.flush();
  t.equal(batches.length, 1, 'nothing is left to write');
});

test('a confirmation replaces the noted state of the same pair, and is not replaced by it', async (t) => {
  const { aSession, stateOf, writeBehind } = aWorld();
  const key = await aSession();
  const state = initialState(4e6, '');
  writeBehind.note(key, { ...state, confirmed: false });
  writeBehind.note(key, { ...state, confirmed: true });
  writeBehind.note(key, { ...state, confirmed: false });
  await writeBehind.flush();
  t.equal((await stateOf(key.tokenId))?.confirmed, true);

  writeBehind.note(key, initialState(6e6, ''));
  writeBehind.note(key, { ...initialState(5e6, ''), confirmed: true });
  await writeBehind.flush();
  t.strictSame(await stateOf(key.tokenId), initialState(6e6, ''), 'nor does a confirmation of an older pair');
});

test('a failed flush loses nothing, and does not overwrite newer states', async (t) => {
  const { aSession, stateOf, writeBehind, answer } = aWorld();
  const key = await aSession();
  writeBehind.note(key, initialState(4e6, 'old'));
  writeBehind.noteUse(9, 5000);
  answer(0);
  const failing = writeBehind.flush();
  writeBehind.note(key, initialState(5e6, 'new'));
  await t.rejects(failing, { code: 'unavailable' });
  t.equal(writeBehind.size(), 2);
  answer(Infinity);
  await writeBehind.flush();
  t.equal(writeBehind.size(), 0);
  t.equal((await stateOf(key.tokenId))?.caller, 'new');
});

test('large batches are split, and only the failed part is written again', async (t) => {
  const { writeBehind, batches, answer } = aWorld();
  const ids = Array.from({ length: 1200 }, (_, i) => i + 1);
  for (const tokenId of ids) writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  for (const tokenId of ids) writeBehind.noteUse(tokenId, 1000);
  answer(2);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.equal(writeBehind.size(), 400 + 1200);
  answer(2);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.equal(writeBehind.size(), 800);
  answer(Infinity);
  await writeBehind.flush();
  t.strictSame(
    batches.map(({ length }) => length),
    [400, 400, 400, 400, 400, 400],
  );
  t.strictSame(batches.slice(0, 3).flat().sort(byNumber), ids);
  t.strictSame(batches.slice(3).flat().sort(byNumber), ids);
});

test('a backlog is written in batches sorted by id, and neighbors are written far apart', async (t) => {
  const { writeBehind, batches } = aWorld();
  const ids = Array.from({ length: 10_001 }, (_, i) => i + 1);
  for (const tokenId of ids.toReversed()) writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  await writeBehind.flush();
  t.equal(batches.length, 21);
  const batchOf = new Map(batches.flatMap((batch, at) => batch.map((id) => [id, at] as const)));
  t.equal(batchOf.size, ids.length);
  t.ok(batches.every((batch) => batch.every((id, i) => i === 0 || id > (batch[i - 1] ?? 0))));
  const distances = ids.slice(1).map((id) => Math.abs((batchOf.get(id) ?? 0) - (batchOf.get(id - 1) ?? 0)));
  t.ok(Math.min(...distances) > 3, `at least ${Math.min(...distances)} batches apart`);
});

test('the order of batches is the same on every replica', async (t) => {
  const { writeBehind, batches } = aWorld();
  for (let tokenId = 1; tokenId <= 2500; tokenId++)
    writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  await writeBehind.flush();
  t.strictSame(
    batches.map(([first]) => first),
    [1, 4, 2, 5, 3],
  );
});

test('only the last use of a token counts', async (t) => {
  const { aSession, tokens, writeBehind } = aWorld();
  const { userId } = await aSession();
  const tokenId =
    (await tokens.addLongLived(userId, { name: 'x', createdAt: 0, kid: 'a key', createdBy: null }, 5)) ?? 0;
  for (const at of [3000, 5000, 4000]) writeBehind.noteUse(tokenId, at);
  t.equal(writeBehind.size(), 1);
  await writeBehind.flush();
  t.equal((await tokens.find(tokenId))?.record.lastUsedAt, 5000);
});

test('what services report is written apart, as used when it arrived', async (t) => {
  const { aSession, tokens, writeBehind, batches, clock, answer } = aWorld();
  const { userId, tokenId: session } = await aSession();
  const token = { name: 'x', createdAt: 0, kid: 'a key', createdBy: null };
  const tokenId = (await tokens.addLongLived(userId, token, 5)) ?? 0;
  const at = clock.now();
  writeBehind.noteUse(9, 1000);
  writeBehind.noteReported([tokenId, session, tokenId]);
  t.equal(writeBehind.size(), 3);
  clock.pass(300);
  t.equal(writeBehind.lag(), 300);
  answer(1);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.equal(writeBehind.size(), 2, 'they stay queued');
  answer(Infinity);
  await writeBehind.flush();
  t.strictSame(batches, [[9], [session, tokenId].sort(byNumber)]);
  t.equal((await tokens.find(tokenId))?.record.lastUsedAt, at);
  t.equal((await tokens.find(session))?.record.lastUsedAt, null);
});

test('by a clock that is not trusted, what services report is not noted', (t) => {
  const { writeBehind, clock } = aWorld();
  clock.distrust();
  writeBehind.noteReported([7]);
  clock.pass(100);
  t.strictSame([writeBehind.size(), writeBehind.lag()], [0, 0]);
  t.end();
});

test('concurrent flushes are one flush; a later one is separate', async (t) => {
  const { aSession, writeBehind, batches } = aWorld();
  const key = await aSession();
  writeBehind.note(key, initialState(2e6, ''));
  const first = writeBehind.flush();
  t.equal(writeBehind.flush(), first);
  await first;
  writeBehind.note(key, initialState(3e6, ''));
  await writeBehind.flush();
  t.equal(batches.length, 2);
});

test('a session rotated here and revoked elsewhere gets its tombstone, which is renewed from now on', async (t) => {
  const { aSession, tokens, revocations, tokenStates, writeBehind } = aWorld();
  const key = await aSession();
  writeBehind.note(key, initialState(5e6, ''));
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await writeBehind.flush();
  t.equal((await tokenStates.checkAccess(key, 5e6)).outcome, 'revoked');
  t.match(await revocations.settledSince({ ago: 60_000 }, 10), { keys: [key] });
});

test('its tombstone waits for no record that fails, and no record waits for its tombstone', async (t) => {
  const { aSession, tokens, writeBehind, batches, ended, answer, cutOff, clock } = aWorld();
  const key = await aSession();
  writeBehind.note(key, initialState(5e6, ''));
  writeBehind.noteUse(9, 5000);
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  cutOff(true);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.strictSame(batches, [[key.tokenId], [9]]);
  clock.pass(500);
  t.strictSame([writeBehind.size(), writeBehind.lag()], [0, 0], 'all is written');

  cutOff(false);
  writeBehind.noteUse(9, 6000);
  answer(0);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.strictSame(ended, [key]);
  answer(Infinity);
  await writeBehind.flush();
  t.strictSame(ended, [key], 'set once');
});

test('the lag is the age of the oldest waiting entry, also during a write and after its failure', async (t) => {
  const { writeBehind, answer, clock } = aWorld();
  const note = (tokenId: number) => {
    writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  };
  clock.pass(1000);
  t.equal(writeBehind.lag(), 0, 'nothing waits');
  note(1);
  clock.pass(300);
  writeBehind.noteUse(2, 1);
  note(1);
  clock.pass(200);
  t.equal(writeBehind.lag(), 500);

  answer(0);
  const failing = writeBehind.flush();
  t.equal(writeBehind.lag(), 500, 'during the write');
  await t.rejects(failing, { code: 'unavailable' });
  clock.pass(500);
  t.equal(writeBehind.lag(), 1000, 'the age of a failed entry stays');

  answer(Infinity);
  const working = writeBehind.flush();
  clock.pass(100);
  note(3);
  await working;
  clock.pass(50);
  t.equal(writeBehind.lag(), 50, 'the entry noted meanwhile');
  await writeBehind.flush();
  t.equal(writeBehind.lag(), 0);
});

test('an entry noted during a write and written along with it has no lag', async (t) => {
  const { aSession, writeBehind, during, clock } = aWorld();
  const key = await aSession();
  writeBehind.note(key, initialState(2e6, ''));
  during(() => {
    writeBehind.noteUse(key.tokenId, 1);
  });
  await writeBehind.flush();
  clock.pass(5000);
  t.equal(writeBehind.size(), 0);
  t.equal(writeBehind.lag(), 0);

  writeBehind.noteUse(key.tokenId, 2);
  during(() => {
    writeBehind.note(key, initialState(3e6, ''));
    writeBehind.noteUse(key.tokenId, 3);
  });
  await writeBehind.flush();
  clock.pass(5000);
  t.equal(writeBehind.size(), 2);
  t.equal(writeBehind.lag(), 5000);
});

test('a full queue drops uses, and then the oldest rotations, as a killed replica would', async (t) => {
  const queues = someQueues();
  const written: number[] = [];
  let isAway = true;
  const writeBehind = makeWriteBehind({
    ...queues,
    clock: aClock(),
    tokenStates: { revokeAll: () => Promise.resolve() },
    revocations: { settle: () => Promise.resolve() },
    writer: {
      saveStates: (batch) => {
        if (isAway) return Promise.reject(new AuthError('unavailable'));
        for (const { tokenId } of batch) written.push(tokenId);
        return Promise.resolve([]);
      },
      saveUses: () => Promise.resolve(),
      saveReportedUses: () => Promise.resolve(),
    },
  });
  const note = (tokenId: number) => {
    writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  };
  for (let id = 1; id <= 198_500; id++) note(id);
  for (let id = 300_001; id <= 301_500; id++) writeBehind.noteUse(id, 1);
  note(198_500);
  t.strictSame([writeBehind.size(), queues.dropped], [200_000, {}], 'a session takes one place');
  note(198_501);
  t.strictSame(queues.dropped, { write_behind: 1000 }, 'uses');
  const failing = writeBehind.flush();
  for (let id = 198_502; id <= 200_000; id++) note(id);
  await t.rejects(failing, { code: 'unavailable' });
  t.strictSame(queues.dropped, { write_behind: 1500 }, 'what is being written has places too');
  writeBehind.noteUse(300_001, 1);
  t.strictSame(
    [writeBehind.size(), queues.dropped],
    [200_000, { write_behind: 1501 }],
    'no rotation for a use',
  );
  note(200_001);
  t.equal(writeBehind.size(), 199_001);
  isAway = false;
  await writeBehind.flush();
  t.strictSame(written.sort(byNumber)[0], 1001, 'the oldest are gone');
  t.strictSame([written.length, written.at(-1)], [199_001, 200_001]);
});

test('what services report gives way to everything else, and makes nothing give way', async (t) => {
  const { writeBehind, queues, batches } = aWorld();
  const ids = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);
  for (const tokenId of ids(1, 100_000)) writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  for (const tokenId of ids(200_001, 98_000)) writeBehind.noteUse(tokenId, 1);
  writeBehind.noteReported(ids(400_001, 2500));
  t.strictSame(
    [writeBehind.size(), queues.dropped],
    [199_500, { write_behind: 1000 }],
    'of its own, the oldest',
  );
  for (const tokenId of ids(100_001, 600)) writeBehind.note({ userId: 1, tokenId }, initialState(2e6, ''));
  t.strictSame(queues.dropped, { write_behind: 2000 }, 'for rotations');
  for (const tokenId of ids(500_001, 1300)) writeBehind.noteUse(tokenId, 1);
  t.strictSame(queues.dropped, { write_behind: 2500 }, 'and for uses');
  await writeBehind.flush();
  const written = new Set(batches.flat());
  t.ok([...ids(1, 100_600), ...ids(200_001, 98_000), ...ids(500_001, 1300)].every((id) => written.has(id)));
  t.equal(ids(400_001, 2500).filter((id) => written.has(id)).length, 0);
});
