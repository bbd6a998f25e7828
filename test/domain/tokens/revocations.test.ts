import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeRevocations } from '../../../src/domain/tokens/revocations.ts';
import { makeRevokeTokens } from '../../../src/domain/tokens/revoke.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aFeed, published } from '../../support/feed.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { memoryRecords, testRecords } from '../../support/records.ts';
import { aUser } from '../../support/token.ts';

const clock = { now: () => Date.now(), monotonic: () => performance.now(), isTrusted: () => true };
const aStore = () => makeMemoryTokenStates({ cacheTtl: 3600, now: () => Date.now() * 1000 });

function away(): never {
  throw new AuthError('unavailable');
}

test('a sweep finishes a revocation whose tombstone could not be set', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  const tokenStates = aStore();
  const { revoke } = makeRevokeTokens({
    ...someQueues(),
    tokenStates: { revoke: away },
    tokens,
    revocations,
    clock,
    endOfTick: () => Promise.resolve(),
    pause: () => Promise.resolve(),
  });
  await t.rejects(revoke(key.userId, key.tokenId), { code: 'unavailable' });
  t.equal((await tokenStates.checkAccess(key, 1)).outcome, 'missing', 'no tombstone yet');

  await makeRevocations({ revocations, tokenStates, feed: aFeed() }).sweep();
  t.equal((await tokenStates.checkAccess(key, 1)).outcome, 'revoked');
  t.strictSame(await revocations.pending(10), []);
});

test('a sweep that cannot set the tombstones leaves them marked', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await t.rejects(
    makeRevocations({
      revocations,
      tokenStates: { revokeAll: away },
      feed: aFeed(),
    }).sweep(),
    {
      code: 'unavailable',
    },
  );
  t.strictSame(await revocations.pending(10), [key]);
});

test('recent revocations are set again in a store that lost them', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const [old, recent] = [await aSession(), await aSession()];
  // Revoked long before: the time of the tombstone counts.
  for (const key of [old, recent]) await tokens.revoke(key.userId, key.tokenId, Date.now() - 7_200_000);
  await revocations.settle([old.tokenId, recent.tokenId]);
  await postgres.prisma.$executeRaw`
    UPDATE tokens SET settled_at = settled_at - interval '2 minutes' WHERE id = ${old.tokenId}`;

  const tokenStates = aStore();
  await makeRevocations({ revocations, tokenStates, feed: aFeed() }).renew(60_000);
  t.equal((await tokenStates.checkAccess(recent, 1)).outcome, 'revoked');
  t.equal((await tokenStates.checkAccess(old, 1)).outcome, 'missing');
});

test('a sweep publishes a revocation before it is settled', async (t) => {
  const { aSession, tokens, revocations } = memoryRecords();
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  const [tokenStates, feed] = [aStore(), aFeed()];
  const cannot = { ...feed, publish: away };
  await t.rejects(makeRevocations({ revocations, tokenStates, feed: cannot }).sweep(), {
    code: 'unavailable',
  });
  t.strictSame(await revocations.pending(10), [key], 'the next sweep finds it');
  await makeRevocations({ revocations, tokenStates, feed }).sweep();
  t.strictSame(await published(feed), [`${key.userId}/${key.tokenId}`]);
  t.strictSame(await revocations.pending(10), []);
});

test('many tokens of a disabled user give one event', async (t) => {
  const users = [aUser({ id: 1 }), aUser({ id: 2 }), aUser({ id: 3 })];
  const tokens = makeMemoryTokenStore(users);
  for (const [userId, count] of [
    [3, 2],
    [1, 3],
    [2, 3],
  ] as const) {
    for (let i = 0; i < count; i++) {
      const id = await tokens.addLongLived(
        userId,
        { name: 'x', createdAt: 1, kid: 'k', createdBy: null },
        100,
      );
      await tokens.revoke(userId, id ?? 0, 1);
    }
  }
  tokens.disable(1);
  tokens.disable(3);
  const feed = aFeed();
  await makeRevocations({
    // As if the user's last token had come after the mark.
    revocations: {
      ...tokens,
      marksOf: async (ids) =>
        (await tokens.marksOf(ids)).map(({ userId, before }) => ({ userId, before: before - 1 })),
    },
    tokenStates: aStore(),
    feed,
  }).sweep();
  // The second user is not disabled and may have other tokens; the third has too few.
  t.strictSame(await published(feed), ['1<=4', '3/1', '3/2', '1/5', '2/6', '2/7', '2/8']);
});

test('a sweep and a renewal go on until a page is not full', async (t) => {
  const keys = Array.from({ length: 1001 }, (_, i) => ({ userId: i + 1, tokenId: i + 1 }));
  let pending = keys;
  const asked: unknown[] = [];
  const renewals = makeRevocations({
    revocations: {
      ...memoryRecords().revocations,
      pending: (limit) => Promise.resolve(pending.slice(0, limit)),
      settle: (tokenIds) => {
        pending = pending.slice(tokenIds.length);
        return Promise.resolve();
      },
      settledSince: (from, limit) => {
        asked.push(from);
        const after = 'id' in from ? from.id : 0;
        const page = keys.slice(after, after + limit);
        return Promise.resolve({ keys: page, last: (page.at(-1)?.tokenId ?? 0) * 10 });
      },
    },
    tokenStates: aStore(),
    feed: aFeed(),
  });
  await renewals.sweep();
  t.strictSame(pending, []);
  t.equal(renewals.pending(), 1, 'the last page had one');
  await renewals.renew(60_000);
  t.strictSame(asked, [{ ago: 60_000 }, { at: 10_000, id: 1000 }]);
});
