import { test } from 'tap';
import type { Principal } from '../../../src/domain/access-tokens/principal.ts';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeLogOutEverywhere } from '../../../src/domain/sessions/log-out-everywhere.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { aFeed, published } from '../../support/feed.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser } from '../../support/token.ts';

const HOUR = 3600;

/** A user with two sessions and an LLT, all of them in the fast store too. */
async function aWorld() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2 })]);
  const states = makeMemorySessionState({ cacheTtl: 3600, now: clock.micros });
  const events: AuditEvent[] = [];
  /** What happens each time after the commit, before it is looked at. */
  const meanwhile: (() => Promise<unknown>)[] = [];
  const feed = aFeed();
  let isAway = false;
  const everywhere = makeLogOutEverywhere({
    tokens,
    revocations: {
      settle: (tokenIds) => tokens.settle(tokenIds),
      pending: async (...asked) => {
        await meanwhile.shift()?.();
        return tokens.pending(...asked);
      },
    },
    states: {
      revoke: (key) => (isAway ? Promise.reject(new AuthError('unavailable')) : states.revoke(key)),
    },
    feed,
    lifetimes: { accessToken: 900, refreshToken: HOUR, session: 0 },
    clock,
    audit: (event) => events.push(event),
  });
  const open = async (ago = 0) => {
    const state = initialState(clock.micros() - ago * 1e6, 'home');
    const session = { name: 'Firefox', createdAt: clock.now() - ago * 1000, state };
    const added = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
    const found = await tokens.find(added?.id ?? 0);
    if (found) await states.put(found.record, user, clock.micros());
    return added?.id ?? 0;
  };
  const [other, asking] = [await open(), await open()];
  const llt =
    (await tokens.addLongLived(1, { name: 'Kitchen', createdAt: clock.now(), kid: 'a key' }, 9)) ?? 0;
  const asks = (tokenId = asking): Principal => ({ user, tokenId, type: 'access' });
  const bearer = (tokenId = asking) =>
    ({ userId: 1, tokenId, generation: clock.micros(), type: 'access' }) as const;
  const stateOf = async (tokenId: number) =>
    (await states.checkAccess({ userId: 1, tokenId }, Number.MAX_SAFE_INTEGER)).outcome;
  const cutOff = (away: boolean) => {
    isAway = away;
  };
  return {
    clock,
    tokens,
    events,
    feed,
    meanwhile,
    everywhere,
    open,
    other,
    asking,
    llt,
    asks,
    bearer,
    stateOf,
    cutOff,
  };
}

test('all of it ends in the record and the store, and is told once', async (t) => {
  const { clock, tokens, events, everywhere, other, asking, llt, asks, stateOf } = await aWorld();
  t.equal(await everywhere.end(asks(), false), 3);
  t.strictSame(await tokens.list(1), []);
  const lifetimes = { accessToken: 900, refreshToken: HOUR, session: 0 };
  const ended = await tokens.listEnded(1, { since: 0, now: clock.now(), limit: 9 }, lifetimes);
  t.strictSame(new Set(ended.map(({ reason }) => reason)), new Set(['logout']));
  for (const id of [other, asking, llt]) t.equal(await stateOf(id), 'revoked');
  t.strictSame(await tokens.pending(9), []);
  t.strictSame(events, [
    { event: 'user.logged_out', userId: 1, by: asking, tokenIds: [other, asking, llt], before: llt },
  ]);
});

test('the session that asks stays, where it says so', async (t) => {
  const { events, everywhere, other, asking, llt, asks, stateOf } = await aWorld();
  t.equal(await everywhere.end(asks(), true), 2);
  t.strictSame([await stateOf(other), await stateOf(asking)], ['revoked', 'good']);
  t.match(events, [{ tokenIds: [other, llt], before: null }]);
});

test('it is not said to be done before the store has all of it, and a retry finishes it', async (t) => {
  for (const keeps of [true, false]) {
    const { tokens, events, everywhere, other, llt, asks, bearer, stateOf, cutOff } = await aWorld();
    cutOff(true);
    await t.rejects(everywhere.end(asks(), keeps), { code: 'unavailable' });
    t.equal((await tokens.list(1)).length, keeps ? 1 : 0, 'the record came first');
    t.equal(events.length, 1, 'and what happened is told');
    if (!keeps) await t.rejects(everywhere.hasHappened(bearer()), { code: 'unavailable' });
    cutOff(false);
    if (keeps) t.equal(await everywhere.end(asks(), true), 0);
    else t.equal(await everywhere.hasHappened(bearer()), true);
    for (const id of [other, llt]) t.equal(await stateOf(id), 'revoked');
    t.strictSame(await tokens.pending(9), []);
  }
});

test('what had expired is not counted, and what may still be in use is ended', async (t) => {
  const { tokens, events, everywhere, open, other, asking, llt, asks, stateOf } = await aWorld();
  const stale = await open(2 * HOUR);
  await open(HOUR);
  const old = await open(26 * HOUR);
  t.equal(await everywhere.end(asks(), false), 3);
  t.match(events, [{ tokenIds: [other, asking, llt], before: old }]);
  t.equal(await stateOf(stale), 'revoked', 'its record may be behind');
  t.strictSame(
    (await tokens.list(1)).map(({ id }) => id),
    [old],
  );
});

test('an LLT may not', async (t) => {
  const { tokens, everywhere, llt, asks } = await aWorld();
  await t.rejects(everywhere.end({ ...asks(llt), type: 'llt' }, false), { code: 'token_not_allowed' });
  t.equal((await tokens.list(1)).length, 3);
});

test('it has happened where nothing of the user’s lives any more', async (t) => {
  const { clock, tokens, everywhere, open, other, asking, llt, asks, bearer } = await aWorld();
  t.equal(await everywhere.hasHappened(bearer()), false, 'it lives');
  await open(30 * HOUR);
  await tokens.revoke(1, asking, clock.now());
  t.equal(await everywhere.hasHappened(bearer()), false, 'another session and an LLT live');
  await tokens.revoke(1, other, clock.now());
  t.equal(await everywhere.hasHappened(bearer()), false, 'an LLT lives');
  await everywhere.end(asks(other), false);
  t.equal(await everywhere.hasHappened(bearer()), true, 'what has expired is no matter');
  t.equal(await everywhere.hasHappened({ ...bearer(), userId: 2 }), false, 'somebody else’s');
  t.equal(await everywhere.hasHappened({ ...bearer(llt), type: 'llt' }), false);
  t.equal(await everywhere.hasHappened(bearer(999)), false);
  const later = await open();
  t.equal(await everywhere.hasHappened(bearer()), false, 'this one may be a thief’s');
  await tokens.revoke(1, later, clock.now());
  t.equal(await everywhere.hasHappened(bearer()), true);
  tokens.disable(1);
  t.equal(await everywhere.hasHappened(bearer()), false);
});

test('services are told of all of it by one event, or of each where one token stays', async (t) => {
  const all = await aWorld();
  await all.everywhere.end(all.asks(), false);
  t.strictSame(await published(all.feed), [`1<=${all.llt}`]);
  const others = await aWorld();
  await others.everywhere.end(others.asks(), true);
  t.strictSame(await published(others.feed), [`1/${others.other}`, `1/${others.llt}`]);
  const late = await aWorld();
  late.cutOff(true);
  await t.rejects(late.everywhere.end(late.asks(), false), { code: 'unavailable' });
  t.strictSame(await published(late.feed), [], 'not before the tombstones stand');
  late.cutOff(false);
  t.equal(await late.everywhere.hasHappened(late.bearer()), true);
  t.strictSame(await published(late.feed), [`1/${late.other}`, `1/${late.asking}`, `1/${late.llt}`]);
});

test('what is ended after the commit is told by itself', async (t) => {
  const { everywhere, tokens, feed, meanwhile, open, llt, asks, clock } = await aWorld();
  let newer = 0;
  meanwhile.push(async () => {
    newer = await open();
    await tokens.revoke(1, newer, clock.now());
  });
  await everywhere.end(asks(), false);
  t.strictSame(await published(feed), [`1<=${llt}`, `1/${newer}`]);
});

test('however many there are, each page is told once', async (t) => {
  const { everywhere, tokens, feed, clock, asks } = await aWorld();
  for (let i = 0; i < 1997; i++) {
    await tokens.addLongLived(1, { name: 'x', createdAt: clock.now(), kid: 'a key' }, 2000);
  }
  const told: number[] = [];
  const real = { ...feed };
  feed.publishUser = (mark, keys) => {
    told.push(keys.length);
    return real.publishUser(mark, keys);
  };
  t.equal(await everywhere.end(asks(), false), 2000);
  t.strictSame(await tokens.pending(1), []);
  t.strictSame(told, [1000, 1000]);
});
