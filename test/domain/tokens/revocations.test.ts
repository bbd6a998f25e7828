import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeRevocations } from '../../../src/domain/tokens/revocations.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aFeed, published } from '../../support/feed.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { memoryRecords, testRecords } from '../../support/records.ts';
import { aUser } from '../../support/token.ts';

const clock = { now: () => Date.now(), monotonic: () => performance.now() };
const aStore = () => makeMemoryTokenStates({ cacheTtl: 3600, now: () => Date.now() * 1000 });

function away(): never {
  throw new AuthError('unavailable');
}

test('a sweep finishes a revocation whose tombstone could not be set', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  const tokenStates = aStore();
  const revoke = makeRevoke({ tokenStates: { revoke: away }, tokens, revocations, clock });
  await t.rejects(revoke(key.userId, key.tokenId), { code: 'unavailable' });
  t.equal((await tokenStates.checkAccess(key, 1)).outcome, 'missing', 'no tombstone yet');

  await makeRevocations({ revocations, tokenStates, feed: aFeed(), clock }).sweep();
  t.equal((await tokenStates.checkAccess(key, 1)).outcome, 'revoked');
  t.strictSame(await revocations.pending(10), []);
});

test('a sweep that cannot set the tombstones leaves them marked', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await t.rejects(
    makeRevocations({ revocations, tokenStates: { revokeAll: away }, feed: aFeed(), clock }).sweep(),
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
  await makeRevocations({ revocations, tokenStates, feed: aFeed(), clock }).renew(60_000);
  t.equal((await tokenStates.checkAccess(recent, 1)).outcome, 'revoked');
  t.equal((await tokenStates.checkAccess(old, 1)).outcome, 'missing');
});

test('after an outage one renewal covers the whole outage', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await revocations.settle([key.tokenId]);
  await postgres.prisma.$executeRaw`UPDATE tokens SET settled_at = settled_at - interval '5 minutes'`;

  const time = aClock();
  let tokenStates = aStore();
  let isAway = false;
  const renewals = makeRevocations({
    revocations: {
      ...revocations,
      settledSince: (...asked) => (isAway ? away() : revocations.settledSince(...asked)),
    },
    tokenStates: { revokeAll: (keys) => tokenStates.revokeAll(keys) },
    feed: aFeed(),
    clock: time,
  });
  const outcome = async () => (await tokenStates.checkAccess(key, 1)).outcome;
  await renewals.renewRecent();
  t.equal(await outcome(), 'missing', 'its tombstone was set more than a minute ago');

  isAway = true;
  for (let i = 0; i < 5; i++) {
    time.pass(60_000);
    await t.rejects(renewals.renewRecent(), { code: 'unavailable' });
  }
  isAway = false;
  await renewals.renewRecent();
  t.equal(await outcome(), 'revoked');

  tokenStates = aStore();
  await renewals.renewRecent();
  t.equal(await outcome(), 'missing', 'a minute is enough again');
});

test('a sweep publishes a revocation before it is settled', async (t) => {
  const { aSession, tokens, revocations } = memoryRecords();
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  const [tokenStates, feed] = [aStore(), aFeed()];
  const cannot = { ...feed, publish: away };
  await t.rejects(makeRevocations({ revocations, tokenStates, feed: cannot, clock }).sweep(), {
    code: 'unavailable',
  });
  t.strictSame(await revocations.pending(10), [key], 'the next sweep finds it');
  await makeRevocations({ revocations, tokenStates, feed, clock }).sweep();
  t.strictSame(await published(feed), [`${key.userId}/${key.tokenId}`]);
  t.strictSame(await revocations.pending(10), []);
});

test('many tokens of a disabled user give one event', async (t) => {
  const users = [aUser({ id: 1 }), aUser({ id: 2 }), aUser({ id: 3 })];
  const tokens = makeMemoryTokenStore(users);
  for (const [userId, count] of [
    [1, 3],
    [2, 3],
    [3, 2],
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
  await makeRevocations({ revocations: tokens, tokenStates: aStore(), feed, clock }).sweep();
  // The second user is not disabled and may have other tokens; the third has too few.
  t.strictSame(await published(feed), ['1<=3', '2/4', '2/5', '2/6', '3/7', '3/8']);
});

test('events lost in a failover are published again, and a replay publishes nothing', async (t) => {
  const { aSession, tokens, revocations } = memoryRecords();
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await revocations.settle([key.tokenId]);
  const feed = aFeed();
  const renewals = makeRevocations({ revocations, tokenStates: aStore(), feed, clock });
  await renewals.renew(7_200_000);
  t.strictSame(await published(feed), []);
  for (let i = 0; i < 3; i++) await renewals.renewRecent();
  t.strictSame(await published(feed), [`${key.userId}/${key.tokenId}`], 'once');
});

test('a renewal reports how far back it looked, including its own duration', async (t) => {
  const { revocations } = memoryRecords();
  const time = aClock();
  const renewed: [number, number][] = [];
  const feed = {
    ...aFeed(),
    renewed: (from: number, to: number) => {
      renewed.push([from, to]);
      return Promise.resolve();
    },
  };
  const slow = {
    ...revocations,
    settledSince: async (...asked: Parameters<typeof revocations.settledSince>) => {
      time.pass(300);
      return revocations.settledSince(...asked);
    },
  };
  const renewals = makeRevocations({ revocations: slow, tokenStates: aStore(), feed, clock: time });
  await renewals.renewRecent();
  time.pass(10_000);
  await renewals.renewRecent();
  t.strictSame(renewed, [
    [60_300, 300],
    [70_600, 300],
  ]);
});
