import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import { makeRefresh } from '../../../src/domain/sessions/refresh.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../../src/domain/tokens/write-behind.ts';
import { withReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aSession, aUser, ROOM } from '../../support/token.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

/** A session opened an hour ago, in the record and in the store. */
async function aService({ retryWindow = 10, maxAge = 0 } = {}) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 36_000, now: clock.micros });
  const writeBehind = makeWriteBehind({
    writer: tokens,
    tokenStates,
    revocations: tokens,
    clock,
    ...someQueues(),
  });
  const events: AuditEvent[] = [];
  const observed: string[] = [];
  const audit = (event: AuditEvent) => events.push(event);
  const generation = clock.micros();
  const createdAt = clock.now();
  const state = initialState(generation, 'home');
  const added = await tokens.addSession(1, { name: 'Firefox', createdAt, state }, ROOM);
  const tokenId = added?.id ?? 0;
  await tokenStates.put(aSession(state, { id: tokenId, userId: 1, createdAt }), user, generation);
  clock.pass(3_600_000);

  const refresh = makeRefresh({
    readThrough: withReadThrough(tokenStates, { tokens, clock, observe: UNOBSERVED }),
    endForReuse: makeEndForReuse({ tokenStates, tokens, revocations: tokens, clock, audit, ...someQueues() }),
    writeBehind,
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: maxAge },
    retryWindow,
    clock,
    audit,
    observe: { refresh: (outcome) => observed.push(outcome) },
  });
  const present = (of: number, { caller = 'home', inside = 0, userId = 1 } = {}) =>
    refresh({
      identity: { userId, tokenId, generation: of, acr: 'mfa' as const },
      caller,
      receivedAt: clock.monotonic() - inside,
      from: NO_REQUEST,
    });
  /** A long-lived token that the session created with a pair of this generation. */
  const create = async (of: number) => {
    const createdBy = { sessionId: tokenId, withFactor: false, generation: of };
    const token = { name: 'Kitchen', createdAt: clock.now(), kid: 'a key', createdBy };
    return (await tokens.addLongLived(1, token, 9)) ?? 0;
  };
  const key = { userId: 1, tokenId };
  return {
    clock,
    user,
    tokens,
    tokenStates,
    writeBehind,
    events,
    observed,
    generation,
    createdAt,
    key,
    present,
    create,
  };
}

test('a refresh token is exchanged for the next pair', async (t) => {
  const { clock, user, tokenStates, generation, createdAt, key, present } = await aService();
  const grant = await present(generation);
  const { tokenId } = key;
  t.strictSame(grant, { user, createdAt, tokenId, generation: grant.generation, acr: 'mfa' });
  t.ok(grant.generation >= clock.now() * 1000, 'its generation is its time of issue');
  t.match(await tokenStates.checkAccess(key, generation), { outcome: 'superseded' });
  t.match(await tokenStates.checkAccess(key, grant.generation), { outcome: 'good' });
});

test('a retry within the window returns the same pair to the same client', async (t) => {
  const { clock, generation, events, writeBehind, present } = await aService();
  const grant = await present(generation);
  t.equal(writeBehind.size(), 1, 'the record follows later');
  await writeBehind.flush();
  clock.pass(9_000);
  t.strictSame(await present(generation), grant);
  t.equal(writeBehind.size(), 0, 'once');
  await t.rejects(present(generation, { caller: 'elsewhere' }), { code: 'refresh_overlap', retryAfter: 1 });
  t.strictSame(events, [], 'no alarm');
});

test('a client that must wait gets the time in whole seconds', async (t) => {
  const { clock, generation, present } = await aService();
  await present(generation);
  await t.rejects(present(generation, { caller: '' }), { code: 'refresh_overlap', retryAfter: 10 });
  clock.pass(5_500);
  await t.rejects(present(generation, { caller: '' }), { code: 'refresh_overlap', retryAfter: 5 });
});

test('with the window off, an overlapping request has to wait a second', async (t) => {
  const { clock, generation, present } = await aService({ retryWindow: 0 });
  await present(generation);
  clock.pass(1_000);
  const late = present(generation, { caller: 'elsewhere', inside: 1_001 });
  await t.rejects(late, { code: 'refresh_overlap', retryAfter: 1 });
});

test('time inside the service counts by the monotonic clock, rounded up', async (t) => {
  const { clock, generation, events, present } = await aService({ retryWindow: 0 });
  const grant = await present(generation);
  clock.pass(1_000);
  t.strictSame(await present(generation, { inside: 1_000.01 }), grant, 'it was inside before the issue');
  await t.rejects(present(grant.generation, { inside: 5_000.0001 }), { code: 'unavailable' });
  t.strictSame(events, [], 'no clock alarm');
  t.match(await present(grant.generation, { inside: 5_000 }), { user: { id: 1 } });
});

test('a superseded token ends the session, in the record too, and raises an alarm', async (t) => {
  const { clock, tokens, tokenStates, generation, events, key, present } = await aService();
  const grant = await present(generation);
  await tokenStates.checkAccess(key, grant.generation);
  clock.pass(11_000);
  await t.rejects(present(generation), { code: 'token_reused' });
  t.strictSame(events, [{ event: 'session.reuse_detected', ...key, generation }]);
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
  t.equal(events.length, 1, 'once');
});

test('long-lived tokens that the session created with the returned token, or later, end with it', async (t) => {
  const { clock, tokens, tokenStates, generation, events, key, present, create } = await aService();
  const grant = await present(generation);
  const [before, at] = [await create(generation - 1), await create(generation)];
  const after = await create(grant.generation);
  await tokenStates.checkAccess(key, grant.generation);
  clock.pass(11_000);
  await t.rejects(present(generation), { code: 'token_reused' });
  t.strictSame(
    (await tokens.list(1)).map(({ id }) => id),
    [before],
  );
  t.match(events.at(-1), { event: 'llt.ended_for_reuse', tokenIds: [at, after], by: key.tokenId });
  t.strictSame(await tokenStates.checkLongLived({ userId: 1, tokenId: at }), { outcome: 'revoked' });
});

test('a theft that was never recorded reaches the record with the next refresh', async (t) => {
  const { clock, tokens, tokenStates, generation, events, key, present, create } = await aService();
  const llt = await create(generation);
  const grant = await present(generation);
  await tokenStates.checkAccess(key, grant.generation);
  clock.pass(11_000);
  const stolen = { generation, elapsed: 0, window: 0, caller: 'thief' };
  t.match(await tokenStates.rotate(key, stolen), { outcome: 'reused' });
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: null } });
  await t.rejects(present(grant.generation), { code: 'token_reused' });
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
  t.strictSame(events, [
    { event: 'session.reuse_detected', ...key, generation: grant.generation },
    { event: 'llt.ended_for_reuse', userId: 1, tokenIds: [llt], by: key.tokenId },
  ]);
  await t.rejects(present(grant.generation), { code: 'invalid_token' }, 'recorded');
  clock.pass(80_000_000);
  t.match(await tokenStates.checkAccess(key, grant.generation), { outcome: 'missing' });
  await t.rejects(present(grant.generation), { code: 'invalid_token' }, 'nothing brings it back');
});

test('a missing state is rebuilt; a revoked, disabled or unknown session is refused', async (t) => {
  const { clock, tokens, tokenStates, generation, key, present } = await aService();
  clock.pass(36_000_000);
  t.match(await tokenStates.checkAccess(key, generation), { outcome: 'missing' });
  const grant = await present(generation);
  await t.rejects(present(grant.generation, { userId: 2 }), { code: 'invalid_token', reason: 'gone' });
  t.match(await present(grant.generation), { tokenId: key.tokenId }, 'the session works on');
  clock.pass(40_000_000);
  tokens.disable(1);
  await t.rejects(present(grant.generation), { code: 'invalid_token', reason: 'disabled' });
  await tokenStates.revoke(key);
  await t.rejects(present(grant.generation), { code: 'invalid_token', reason: 'revoked' });
});

test('a session ends at its greatest age despite refreshes', async (t) => {
  const { clock, observed, generation, present } = await aService({ maxAge: 7_200 });
  clock.pass(3_599_999);
  const grant = await present(generation);
  clock.pass(1);
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
  clock.distrust();
  await t.rejects(present(grant.generation), { code: 'unavailable' });
  t.strictSame(observed.slice(-2), ['expired', 'unavailable']);
});

test('a wrong clock is an outage, and raises an alarm', async (t) => {
  const { clock, generation, events, key, present } = await aService();
  const grant = await present(generation);
  clock.pass(-61_000);
  await t.rejects(present(grant.generation), { code: 'unavailable' });
  t.strictSame(events, [{ event: 'clock.wrong', ...key }]);
  clock.pass(61_000);
  t.match(await present(grant.generation), { tokenId: key.tokenId });
});

test('metrics show which line of the table decided, or why none did', async (t) => {
  const { clock, tokenStates, observed, generation, key, present } = await aService({ maxAge: 7200 });
  const { generation: second } = await present(generation);
  await present(generation);
  await t.rejects(present(generation, { caller: 'elsewhere' }));
  await t.rejects(present(second, { inside: 6000 }));
  clock.pass(60_000);
  await present(generation);
  t.strictSame(observed.splice(0), ['current', 'repeated', 'held', 'stale', 'unconfirmed']);

  clock.pass(7_200_000);
  const latest = clock.micros();
  await t.rejects(present(latest), { code: 'invalid_token' });
  await t.rejects(present(latest), { code: 'invalid_token' });
  await t.rejects(present(latest, { caller: 'elsewhere' }), { code: 'refresh_overlap' });
  t.strictSame(observed.splice(0), ['expired', 'expired', 'held']);

  await tokenStates.revoke(key);
  await t.rejects(present(latest), { code: 'invalid_token' });
  tokenStates.rotate = () => Promise.reject(new AuthError('unavailable'));
  await t.rejects(present(latest), { code: 'unavailable' });
  t.strictSame(observed, ['revoked', 'unavailable']);
});
