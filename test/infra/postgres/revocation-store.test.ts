import { setTimeout } from 'node:timers/promises';
import { test } from 'tap';
import { makeAccountStore } from '../../../src/infra/postgres/account-store.ts';
import { aClient } from '../../support/begun.ts';
import { onEveryRecords, testRecords } from '../../support/records.ts';
import { ROOM } from '../../support/token.ts';

onEveryRecords(
  'a revocation is pending until it is settled',
  async (t, { aSession, tokens, revocations }) => {
    const key = await aSession();
    t.strictSame(await revocations.pending(10), []);
    await tokens.revoke(key.userId, key.tokenId, Date.now());
    t.strictSame(await revocations.pending(10), [key]);
    t.strictSame(await revocations.pending(10, key.userId), [key]);
    t.strictSame(await revocations.pending(10, (await aSession()).userId), []);
    await revocations.settle([key.tokenId]);
    t.strictSame(await revocations.pending(10), []);
    t.equal(await tokens.revoke(key.userId, key.tokenId, Date.now()), 'finished');
  },
);

onEveryRecords(
  'a session that had to make room is pending as well',
  async (t, { aSession, tokens, revocations }) => {
    const { userId, tokenId } = await aSession();
    const session = {
      name: 'x',
      createdAt: Date.now(),
      state: { latest: 2e6, parent: 0, first: 2e6, confirmed: false, caller: '' },
    };
    const added = await tokens.addSession(userId, session, { ...ROOM, limit: 1 });
    t.strictSame(added?.replaced, [tokenId]);
    t.strictSame(await revocations.pending(10), [{ userId, tokenId }]);
  },
);

onEveryRecords(
  'tombstones are listed by the time they were last set and id, page by page',
  async (t, { aSession, tokens, revocations }) => {
    const keys = [await aSession(), await aSession(), await aSession(), await aSession()];
    const [first, second, third, live] = keys.map(({ tokenId }) => tokenId) as [
      number,
      number,
      number,
      number,
    ];
    for (const key of keys.slice(0, 3)) await tokens.revoke(key.userId, key.tokenId, 1000);
    const since = (from: { ago: number } | { at: number; id: number }, limit = 10) =>
      revocations.settledSince(from, limit);
    const nothing = { keys: [], last: 0 };
    t.strictSame(await since({ at: 0, id: 0 }), nothing, 'revoked, and pending');
    await revocations.settle([third]);
    await setTimeout(2);
    await revocations.settle([second, first, live]);
    const all = await since({ ago: 60_000 });
    t.strictSame(all.keys, [keys[2], keys[0], keys[1]]);
    const { last } = await since({ ago: 60_000 }, 1);
    t.ok(last < all.last);
    const next = await since({ at: last, id: third }, 1);
    t.strictSame(next.keys, [keys[0]]);
    t.strictSame((await since({ at: next.last, id: first })).keys, [keys[1]]);
    t.strictSame(await since({ at: all.last, id: second }), nothing);
    await setTimeout(2);
    await revocations.settle([third]);
    t.strictSame((await since({ ago: 60_000 })).keys, [keys[0], keys[1], keys[2]], 'set again');
  },
);

test('a mark whose row another transaction holds stays, and holds up neither the others nor the next page', async (t) => {
  const { url, aSession, tokens, revocations } = await testRecords(t);
  const [held, free] = [await aSession(), await aSession()];
  for (const { userId, tokenId } of [held, free]) await tokens.revoke(userId, tokenId, 1000);
  const other = await aClient(t, url);
  await other.query('BEGIN');
  await other.query(`SELECT FROM tokens WHERE id = ${held.tokenId} FOR NO KEY UPDATE`);
  await revocations.settle([held.tokenId, free.tokenId]);
  t.strictSame(await revocations.pending(10), [held]);
  t.strictSame(await revocations.pending(10, undefined, held.tokenId), []);
  await other.query('COMMIT');
});

test('a changed user whom another transaction holds is noted later, and holds up no other', async (t) => {
  const { url, aSession, changes, postgres } = await testRecords(t);
  const accounts = makeAccountStore(postgres, () => []);
  const [held, free] = [(await aSession()).userId, (await aSession()).userId];
  for (const id of [held, free]) await accounts.change({ id }, { name: 'Countess' }, Date.now());
  const changed = (await changes.changedSince(60_000, 10)).changes.map(({ user }) => user);
  const open = async () =>
    Promise.all([held, free].map(async (userId) => (await accounts.pending(userId)).changes));
  t.strictSame(await open(), [1, 1]);
  const other = await aClient(t, url);
  await other.query('BEGIN');
  await other.query(`SELECT FROM users WHERE id = ${held} FOR NO KEY UPDATE`);
  await changes.settleChanges(changed);
  t.strictSame(await open(), [1, 0]);
  await other.query('COMMIT');
  await changes.settleChanges(changed);
  t.strictSame(await open(), [0, 0]);
});
