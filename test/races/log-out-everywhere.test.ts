import { NO_REQUEST } from '../../src/domain/audit/source.ts';
import { test } from 'tap';
import { makeFinishEndings } from '../../src/domain/tokens/finish-endings.ts';
import { makeLogOutEverywhere } from '../../src/domain/sessions/log-out-everywhere.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../src/domain/tokens/write-behind.ts';
import type { TokenStore } from '../../src/domain/tokens/ports.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { redisMissing } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { aFeed } from '../support/feed.ts';
import { aCaller } from '../support/caller.ts';
import { duringUncommitted, raceWorld } from './world.ts';
import { ROOM } from '../support/token.ts';

const skip = { skip: redisMissing };
const now = () => Date.now();
const everything = () =>
  ({ at: now(), reason: 'logout', usedSince: 0, caller: null, keepsCaller: false }) as const;
const aNewSession = () => ({
  name: 'Firefox',
  createdAt: now(),
  state: initialState(now() * 1000, 'home'),
});

async function world(...[t]: Parameters<typeof raceWorld>) {
  const race = await raceWorld(t);
  const { tokenStates, tokens, revocations, user, key } = race;
  const asking = aCaller(user, key.tokenId);
  const everywhere = (revokeAll: TokenStore['revokeAll'] = (...args) => tokens.revokeAll(...args)) =>
    makeLogOutEverywhere({
      finishEndings: makeFinishEndings({ tokenStates, feed: aFeed(), revocations }),
      tokens: { ...tokens, revokeAll },
      lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: 0 },
      clock: systemClock,
      audit: () => undefined,
    });
  const stopped = () =>
    stopAfter((...args: Parameters<TokenStore['revokeAll']>) => tokens.revokeAll(...args));
  return { ...race, asking, everywhere, stopped };
}

/** A login that holds the lock and has added its session without a commit, like TokenStore.addSession. */
const uncommittedLogin = (userId: number) => `
  SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE;
  INSERT INTO tokens (user_id, type, name, created_at, latest, first)
  VALUES (${userId}, 'session', 'racing', now(), ${now() * 1000}, ${now() * 1000})`;

test('everywhere against login: an earlier login is ended with the rest', skip, async (t) => {
  const { url, tokens, key, asking, everywhere } = await world(t);
  const ended = await duringUncommitted(url, uncommittedLogin(key.userId), () =>
    everywhere().end(asking, false, NO_REQUEST),
  );
  t.equal(ended, 2);
  t.strictSame(await tokens.list(key.userId), []);
});

test('everywhere against login: a later login stays, and has a greater id', skip, async (t) => {
  const { url, tokens, key } = await world(t);
  const lock = `SELECT id FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE`;
  const both = await duringUncommitted(url, lock, () =>
    Promise.all([
      tokens.revokeAll(key.userId, everything()),
      tokens.addSession(key.userId, aNewSession(), ROOM),
    ]),
  );
  const [{ ended, before }, added] = both;
  const live = (await tokens.list(key.userId)).map(({ id }) => id);
  const id = added?.id ?? 0;
  // PostgreSQL decides the order. The test checks that both agree on it.
  t.strictSame(live, id > (before ?? 0) ? [id] : []);
  t.equal(
    ended.some((record) => record.id === id),
    id <= (before ?? 0),
  );
  t.ok(ended.some((record) => record.id === key.tokenId));
});

test('everywhere against many logins: each is ended or came later', skip, async (t) => {
  const { tokens, key } = await world(t);
  const [{ before }, ...added] = await Promise.all([
    tokens.revokeAll(key.userId, everything()),
    ...Array.from({ length: 12 }, () => tokens.addSession(key.userId, aNewSession(), ROOM)),
  ]);
  const ids = added.map((one) => one?.id ?? 0);
  t.strictSame(
    (await tokens.list(key.userId)).map(({ id }) => id),
    ids.filter((id) => id > (before ?? 0)).sort((one, other) => one - other),
  );
});

test('everywhere against refresh: a pair issued meanwhile ends with it', skip, async (t) => {
  const { tokenStates, key, generation, rotate, asking, everywhere, stopped } = await world(t);
  const recorded = stopped();
  const ending = everywhere(recorded.work).end(asking, false, NO_REQUEST);
  await recorded.reached;
  const rotated = await rotate(generation);
  t.match(rotated, { outcome: 'issued' }, 'the record has ended, but the fast store does not know yet');
  recorded.go();
  t.equal(await ending, 1);
  const latest = rotated.outcome === 'issued' ? rotated.state.latest : 0;
  t.match(await tokenStates.checkAccess(key, latest), { outcome: 'revoked' });
  t.match(await rotate(latest), { outcome: 'revoked' });
});

test('everywhere against rebuild: a record read earlier is not put back', skip, async (t) => {
  const { key, generation, asking, everywhere, rebuilding, isRevoked } = await world(t);
  const { find, readThrough } = await rebuilding();
  const verifying = readThrough.checkAccess(key, generation);
  await find.reached;
  t.equal(await everywhere().end(asking, false, NO_REQUEST), 1);
  find.go();
  t.match(await verifying, { outcome: 'revoked' });
  t.equal(await isRevoked(), true);
});

test('everywhere against flush: the record of an ended session does not change', skip, async (t) => {
  const { tokenStates, revocations, writer, tokens, key, generation, rotate, asking, everywhere } =
    await world(t);
  const writeBehind = makeWriteBehind({
    tokenStates,
    revocations,
    writer,
    clock: systemClock,
    ...someQueues(),
  });
  const rotated = await rotate(generation);
  if (rotated.outcome !== 'issued') throw new Error(rotated.outcome);
  writeBehind.note(key, rotated.state);
  t.equal(await everywhere().end(asking, false, NO_REQUEST), 1);
  await writeBehind.flush();
  const record = (await tokens.find(key.tokenId))?.record;
  t.equal(record?.state.latest, generation);
  t.not(record?.revokedAt, null);
});

test('everywhere against theft: the first commit gives the reason', skip, async (t) => {
  const { url, tokens, key, asking, everywhere } = await world(t);
  const lifetimes = { accessToken: 900, refreshToken: 2_592_000, session: 0 };
  const theft = `UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'reuse' WHERE id = ${key.tokenId}`;
  t.equal(
    await duringUncommitted(url, theft, () => everywhere().end(asking, false, NO_REQUEST)),
    0,
    'ended already',
  );
  const range = { since: 0, now: now(), limit: 9 };
  t.match(await tokens.listEnded(key.userId, range, lifetimes), [{ id: key.tokenId, reason: 'reuse' }]);
});

test('everywhere but here, from two devices at once: one session is kept', skip, async (t) => {
  const { tokens, key, user, asking, everywhere } = await world(t);
  const other = await tokens.addSession(key.userId, aNewSession(), ROOM);
  const askingToo = aCaller(user, other?.id ?? 0);
  const outcomes = await Promise.allSettled([
    everywhere().end(asking, true, NO_REQUEST),
    everywhere().end(askingToo, true, NO_REQUEST),
  ]);
  t.strictSame(outcomes.map(({ status }) => status).sort(), ['fulfilled', 'rejected']);
  t.match(
    outcomes.find(({ status }) => status === 'rejected'),
    { reason: { code: 'invalid_token' } },
  );
  t.equal((await tokens.list(key.userId)).length, 1);
});
