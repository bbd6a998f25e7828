import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeFinishEndings } from '../../../src/domain/tokens/finish-endings.ts';
import { makeLogOutEverywhere } from '../../../src/domain/sessions/log-out-everywhere.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aClock } from '../../support/clock.ts';
import { aCaller } from '../../support/caller.ts';
import { aFeed, published } from '../../support/feed.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser, ROOM } from '../../support/token.ts';

const HOUR = 3600;

/** A user with two sessions and an LLT, all of them also in the fast store. */
async function aWorld() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2 })]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const events: AuditEvent[] = [];
  /** Runs after each commit, before the result is read. */
  const meanwhile: (() => Promise<unknown>)[] = [];
  const feed = aFeed();
  let isAway = false;
  /** The record's answer, instead of ending tokens. */
  let fault: Error | null = null;
  /** That of the outbox, instead of clearing marks. */
  let unsettled: Error | null = null;
  const everywhere = makeLogOutEverywhere({
    tokens: {
      ...tokens,
      revokeAll: (...asked) => (fault ? Promise.reject(fault) : tokens.revokeAll(...asked)),
    },
    finishEndings: makeFinishEndings({
      revocations: {
        settle: (tokenIds) => (unsettled ? Promise.reject(unsettled) : tokens.settle(tokenIds)),
        pending: async (...asked) => {
          await meanwhile.shift()?.();
          return tokens.pending(...asked);
        },
      },
      tokenStates: {
        revoke: (...keys) =>
          isAway ? Promise.reject(new AuthError('unavailable')) : tokenStates.revoke(...keys),
      },
      feed,
    }),
    lifetimes: { accessToken: 900, refreshToken: HOUR, session: 0 },
    clock,
    audit: (event) => events.push(event),
  });
  const open = async (ago = 0) => {
    const state = initialState(clock.micros() - ago * 1e6, 'home');
    const session = { name: 'Firefox', createdAt: clock.now() - ago * 1000, state };
    const added = await tokens.addSession(1, session, ROOM);
    const found = await tokens.find(added?.id ?? 0);
    if (found) await tokenStates.put(found.record, user, clock.micros());
    return added?.id ?? 0;
  };
  const [other, asking] = [await open(), await open()];
  const llt =
    (await tokens.addLongLived(
      1,
      { name: 'Kitchen', createdAt: clock.now(), kid: 'a key', createdBy: null },
      9,
    )) ?? 0;
  const asks = (tokenId = asking) => aCaller(user, tokenId);
  const bearer = (tokenId = asking) =>
    ({ userId: 1, tokenId, generation: clock.micros(), type: 'access' }) as const;
  const stateOf = async (tokenId: number) =>
    (await tokenStates.checkAccess({ userId: 1, tokenId }, Number.MAX_SAFE_INTEGER)).outcome;
  const cutOff = (away: boolean) => {
    isAway = away;
  };
  const breakRecord = (error: Error) => {
    fault = error;
  };
  const breakOutbox = (error: Error) => {
    unsettled = error;
  };
  return {
    breakRecord,
    breakOutbox,
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

test('all tokens end in the record and the store, with one report', async (t) => {
  const { clock, tokens, events, everywhere, other, asking, llt, asks, stateOf } = await aWorld();
  t.equal(await everywhere.end(asks(), false, NO_REQUEST), 3);
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

test('the asking session stays if it says so', async (t) => {
  const { events, everywhere, other, asking, llt, asks, stateOf } = await aWorld();
  t.equal(await everywhere.end(asks(), true, NO_REQUEST), 2);
  t.strictSame([await stateOf(other), await stateOf(asking)], ['revoked', 'good']);
  t.match(events, [{ tokenIds: [other, llt], before: null }]);
});

test('a repeat that ends nothing is no event', async (t) => {
  const { everywhere, events, asks } = await aWorld();
  await everywhere.end(asks(), true, NO_REQUEST);
  t.equal(events.length, 1);
  t.equal(await everywhere.end(asks(), true, NO_REQUEST), 0);
  t.equal(events.length, 1);
});

test('it fails until the store has every tombstone, and a retry finishes it', async (t) => {
  for (const keeps of [true, false]) {
    const { tokens, events, everywhere, other, llt, asks, bearer, stateOf, cutOff } = await aWorld();
    cutOff(true);
    await t.rejects(everywhere.end(asks(), keeps, NO_REQUEST), { code: 'unavailable' });
    t.equal((await tokens.list(1)).length, keeps ? 1 : 0, 'the record came first');
    t.equal(events.length, 1, 'the event is reported');
    if (!keeps) await t.rejects(everywhere.completeIfAllEnded(bearer()), { code: 'unavailable' });
    cutOff(false);
    if (keeps) t.equal(await everywhere.end(asks(), true, NO_REQUEST), 0);
    else t.equal(await everywhere.completeIfAllEnded(bearer()), true);
    for (const id of [other, llt]) t.equal(await stateOf(id), 'revoked');
    t.strictSame(await tokens.pending(9), []);
  }
});

test('marks that cannot be cleared do not fail it, and keep no page of tombstones back', async (t) => {
  const { everywhere, tokens, asks, llt, other, stateOf, breakOutbox } = await aWorld();
  breakOutbox(new AuthError('unavailable'));
  t.equal(await everywhere.end(asks(), true, NO_REQUEST), 2);
  for (const id of [other, llt]) t.equal(await stateOf(id), 'revoked');
  let last: number | null = null;
  for (let i = 0; i < 1000; i++)
    last = await tokens.addLongLived(1, { name: 'x', createdAt: 0, kid: 'a key', createdBy: null }, 1000);
  t.equal(await everywhere.end(asks(), true, NO_REQUEST), 1000);
  t.equal(await stateOf(last ?? 0), 'revoked');
});

test('expired tokens are not counted, and tokens that may still be in use are ended', async (t) => {
  const { tokens, events, everywhere, open, other, asking, llt, asks, stateOf } = await aWorld();
  const stale = await open(2 * HOUR);
  await open(HOUR);
  const old = await open(26 * HOUR);
  t.equal(await everywhere.end(asks(), false, NO_REQUEST), 3);
  t.match(events, [{ tokenIds: [other, asking, llt], before: old }]);
  t.equal(await stateOf(stale), 'revoked', 'its record may lag');
  t.strictSame(
    (await tokens.list(1)).map(({ id }) => id),
    [old],
  );
});

test('an LLT may not log out everywhere', async (t) => {
  const { tokens, everywhere, llt, asks } = await aWorld();
  await t.rejects(everywhere.end({ ...asks(llt), type: 'llt' }, false, NO_REQUEST), {
    code: 'token_not_allowed',
  });
  t.equal((await tokens.list(1)).length, 3);
});

test('a repeat succeeds if no token of the user is good', async (t) => {
  const { clock, tokens, everywhere, open, other, asking, llt, bearer } = await aWorld();
  t.equal(await everywhere.completeIfAllEnded(bearer()), false, 'the session is good');
  await open(30 * HOUR);
  await tokens.revoke(1, asking, clock.now());
  t.equal(await everywhere.completeIfAllEnded(bearer()), false, 'another session and an LLT are good');
  await tokens.revoke(1, other, clock.now());
  t.equal(await everywhere.completeIfAllEnded(bearer()), false, 'an LLT is good');
  await tokens.revoke(1, llt, clock.now());
  t.equal(await everywhere.completeIfAllEnded(bearer()), true, 'expired tokens do not matter');
  t.equal(await everywhere.completeIfAllEnded({ ...bearer(), userId: 2 }), false, 'another user’s');
  t.equal(await everywhere.completeIfAllEnded({ ...bearer(llt), type: 'llt' }), false);
  t.equal(await everywhere.completeIfAllEnded(bearer(999)), false);
  const later = await open();
  t.equal(await everywhere.completeIfAllEnded(bearer()), false, 'this session may be a thief’s');
  await tokens.revoke(1, later, clock.now());
  t.equal(await everywhere.completeIfAllEnded(bearer()), true);
  tokens.disable(1);
  t.equal(await everywhere.completeIfAllEnded(bearer()), false);
});

test('a session that ended meanwhile ends nothing, and is refused unless all have ended', async (t) => {
  const { clock, tokens, everywhere, other, asking, llt, asks } = await aWorld();
  await tokens.revoke(1, asking, clock.now());
  await t.rejects(everywhere.end(asks(), false, NO_REQUEST), { code: 'invalid_token' });
  t.equal((await tokens.list(1)).length, 2);
  await tokens.revoke(1, other, clock.now());
  await tokens.revoke(1, llt, clock.now());
  await t.rejects(
    everywhere.end(asks(), true, NO_REQUEST),
    { code: 'invalid_token' },
    'it has nothing to keep',
  );
  t.equal(await everywhere.end(asks(), false, NO_REQUEST), 0);
});

test('a failing record does not mean that all tokens have ended', async (t) => {
  const { clock, tokens, everywhere, other, asking, llt, asks, breakRecord } = await aWorld();
  for (const id of [asking, other, llt]) await tokens.revoke(1, id, clock.now());
  for (const error of [
    new AuthError('unavailable'),
    new TypeError('a fault'),
    Object.assign(new Error('not ours'), { code: 'invalid_token' }),
  ]) {
    breakRecord(error);
    await t.rejects(everywhere.end(asks(), false, NO_REQUEST), error);
  }
});

test('an expired long-lived token is not counted', async (t) => {
  const { clock, tokens, everywhere, asks } = await aWorld();
  for (const ms of [-1, 0, 1]) {
    const token = { name: 'x', createdAt: 0, kid: 'a key', expiresAt: clock.now() + ms, createdBy: null };
    await tokens.addLongLived(1, token, 9);
  }
  t.equal(
    await everywhere.end(asks(), false, NO_REQUEST),
    4,
    'two sessions, one LLT without expiry, one that is still good',
  );
});

test('services get one event for all tokens, or one per token if a session stays', async (t) => {
  const all = await aWorld();
  await all.everywhere.end(all.asks(), false, NO_REQUEST);
  t.strictSame(await published(all.feed), [`1<=${all.llt}`]);
  const others = await aWorld();
  await others.everywhere.end(others.asks(), true, NO_REQUEST);
  t.strictSame(await published(others.feed), [`1/${others.other}`, `1/${others.llt}`]);
  const late = await aWorld();
  late.cutOff(true);
  await t.rejects(late.everywhere.end(late.asks(), false, NO_REQUEST), { code: 'unavailable' });
  t.strictSame(await published(late.feed), [], 'not before the tombstones are set');
  late.cutOff(false);
  t.equal(await late.everywhere.completeIfAllEnded(late.bearer()), true);
  t.strictSame(await published(late.feed), [`1/${late.other}`, `1/${late.asking}`, `1/${late.llt}`]);
});

test('a token that ends after the commit gets its own event', async (t) => {
  const { everywhere, tokens, feed, meanwhile, open, llt, asks, clock } = await aWorld();
  let newer = 0;
  meanwhile.push(async () => {
    newer = await open();
    await tokens.revoke(1, newer, clock.now());
  });
  await everywhere.end(asks(), false, NO_REQUEST);
  t.strictSame(await published(feed), [`1<=${llt}`, `1/${newer}`]);
});

test('each page of tokens is reported once', async (t) => {
  const { everywhere, tokens, feed, clock, asks } = await aWorld();
  for (let i = 0; i < 1997; i++) {
    await tokens.addLongLived(1, { name: 'x', createdAt: clock.now(), kid: 'a key', createdBy: null }, 2000);
  }
  const told: number[] = [];
  const real = { ...feed };
  feed.publishUser = (mark, keys) => {
    told.push(keys.length);
    return real.publishUser(mark, keys);
  };
  t.equal(await everywhere.end(asks(), false, NO_REQUEST), 2000);
  t.strictSame(await tokens.pending(1), []);
  t.strictSame(told, [1000, 1000]);
});
