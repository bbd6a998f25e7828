import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import { makeRefresh } from '../../../src/domain/sessions/refresh.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../../src/domain/sessions/write-behind.ts';
import { makeReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aSession, aUser } from '../../support/token.ts';

/** A session of an hour ago, on record and in the store. */
async function aService({ retryWindow = 10, maxAge = 0 } = {}) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user]);
  const states = makeMemorySessionState({ cacheTtl: 36_000, now: clock.micros });
  const writeBehind = makeWriteBehind({ writer: tokens, states, revocations: tokens, clock });
  const events: AuditEvent[] = [];
  const observed: string[] = [];
  const generation = clock.micros();
  const createdAt = clock.now();
  const state = initialState(generation, 'home');
  const added = await tokens.addSession(
    1,
    { name: 'Firefox', createdAt, state },
    { limit: 100, liveSince: 0 },
  );
  const tokenId = added?.id ?? 0;
  await states.put(aSession(state, { id: tokenId, userId: 1, createdAt }), user, generation);
  clock.pass(3_600_000);

  const refresh = makeRefresh({
    states,
    readThrough: makeReadThrough({ states, tokens }),
    endForReuse: makeEndForReuse({
      states,
      revoke: makeRevoke({ states, tokens, revocations: tokens, clock }),
    }),
    writeBehind,
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: maxAge },
    retryWindow,
    clock,
    audit: (event) => events.push(event),
    observe: { refresh: (outcome) => observed.push(outcome) },
  });
  const present = (of: number, { client = 'home', inside = 0, userId = 1 } = {}) =>
    refresh({
      identity: { userId, tokenId, generation: of },
      client,
      receivedAt: clock.monotonic() - inside,
    });
  const key = { userId: 1, tokenId };
  return { clock, user, tokens, states, writeBehind, events, observed, generation, createdAt, key, present };
}

test('a refresh token is exchanged for the next pair', async (t) => {
  const { clock, user, states, generation, createdAt, key, present } = await aService();
  const grant = await present(generation);
  t.strictSame(grant, { user, createdAt, tokenId: key.tokenId, generation: grant.generation });
  t.ok(grant.generation >= clock.now() * 1000, 'its generation is its time of issue');
  t.match(await states.checkAccess(key, generation), { outcome: 'superseded' });
  t.match(await states.checkAccess(key, grant.generation), { outcome: 'good' });
});

test('a retry within the window brings the same pair, to the same client', async (t) => {
  const { clock, generation, events, writeBehind, present } = await aService();
  const grant = await present(generation);
  t.equal(writeBehind.size(), 1, 'the record follows');
  await writeBehind.flush();
  clock.pass(9_000);
  t.strictSame(await present(generation), grant);
  t.equal(writeBehind.size(), 0, 'once');
  await t.rejects(present(generation, { client: 'elsewhere' }), { code: 'refresh_overlap', retryAfter: 1 });
  t.strictSame(events, [], 'nothing to be alarmed about');
});

test('a client that must wait is told for how long, in whole seconds', async (t) => {
  const { clock, generation, present } = await aService();
  await present(generation);
  await t.rejects(present(generation, { client: '' }), { code: 'refresh_overlap', retryAfter: 10 });
  clock.pass(5_500);
  await t.rejects(present(generation, { client: '' }), { code: 'refresh_overlap', retryAfter: 5 });
});

test('with the window off a request that overlapped is told to wait a second', async (t) => {
  const { clock, generation, present } = await aService({ retryWindow: 0 });
  await present(generation);
  clock.pass(1_000);
  const late = present(generation, { client: 'elsewhere', inside: 1_001 });
  await t.rejects(late, { code: 'refresh_overlap', retryAfter: 1 });
});

test('time inside the service counts by the monotonic clock, rounded up', async (t) => {
  const { clock, generation, events, present } = await aService({ retryWindow: 0 });
  const grant = await present(generation);
  clock.pass(1_000);
  t.strictSame(await present(generation, { inside: 1_000.01 }), grant, 'it was inside before the issue');
  await t.rejects(present(grant.generation, { inside: 5_000.0001 }), { code: 'unavailable' });
  t.strictSame(events, [], 'no clock is wrong');
  t.match(await present(grant.generation, { inside: 5_000 }), { user: { id: 1 } });
});

test('a superseded token ends the session, on record too, and is told to the operator', async (t) => {
  const { clock, tokens, states, generation, events, key, present } = await aService();
  const grant = await present(generation);
  await states.checkAccess(key, grant.generation);
  clock.pass(11_000);
  await t.rejects(present(generation), { code: 'token_reused' });
  t.strictSame(events, [{ event: 'session.reuse_detected', ...key, generation }]);
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
  t.equal(events.length, 1, 'once');
});

test('a theft whose finder never heard of it reaches the record with the next refresh', async (t) => {
  const { clock, tokens, states, generation, events, key, present } = await aService();
  const grant = await present(generation);
  await states.checkAccess(key, grant.generation);
  clock.pass(11_000);
  const stolen = { generation, elapsed: 0, window: 0, client: 'thief' };
  t.match(await states.rotate(key, stolen), { outcome: 'reused' });
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: null } });
  await t.rejects(present(grant.generation), { code: 'token_reused' });
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
  t.strictSame(events, [{ event: 'session.reuse_detected', ...key, generation: grant.generation }]);
  await t.rejects(present(grant.generation), { code: 'invalid_token' }, 'the record knows');
  clock.pass(80_000_000);
  t.match(await states.checkAccess(key, grant.generation), { outcome: 'missing' });
  await t.rejects(present(grant.generation), { code: 'invalid_token' }, 'and nothing brings it back');
});

test('a missing state is rebuilt; a revoked, disabled or unknown session is refused', async (t) => {
  const { clock, tokens, states, generation, key, present } = await aService();
  clock.pass(36_000_000);
  t.match(await states.checkAccess(key, generation), { outcome: 'missing' });
  const grant = await present(generation);
  await t.rejects(present(grant.generation, { userId: 2 }), { code: 'invalid_token' });
  t.match(await present(grant.generation), { tokenId: key.tokenId }, 'and is none the worse for it');
  clock.pass(40_000_000);
  tokens.disable(1);
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
  await states.revoke(key);
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
});

test('a session ends at its greatest age, however often it is refreshed', async (t) => {
  const { clock, generation, present } = await aService({ maxAge: 7_200 });
  clock.pass(3_599_999);
  const grant = await present(generation);
  clock.pass(1);
  await t.rejects(present(grant.generation), { code: 'invalid_token' });
});

test('a clock that is wrong is an outage, and is told to the operator', async (t) => {
  const { clock, generation, events, key, present } = await aService();
  const grant = await present(generation);
  clock.pass(-61_000);
  await t.rejects(present(grant.generation), { code: 'unavailable' });
  t.strictSame(events, [{ event: 'clock.wrong', ...key }]);
  clock.pass(61_000);
  t.match(await present(grant.generation), { tokenId: key.tokenId });
});

test('metrics are told which line of the table decided, or why none did', async (t) => {
  const { clock, states, observed, generation, key, present } = await aService({ maxAge: 7200 });
  const { generation: second } = await present(generation);
  await present(generation);
  await t.rejects(present(generation, { client: 'elsewhere' }));
  await t.rejects(present(second, { inside: 6000 }));
  clock.pass(60_000);
  await present(generation);
  t.strictSame(observed.splice(0), ['current', 'repeated', 'held', 'stale', 'unconfirmed']);

  clock.pass(7_200_000);
  const latest = clock.micros();
  await t.rejects(present(latest), { code: 'invalid_token' });
  await t.rejects(present(latest), { code: 'invalid_token' });
  await t.rejects(present(latest, { client: 'elsewhere' }), { code: 'refresh_overlap' });
  t.strictSame(observed.splice(0), ['expired', 'expired', 'held']);

  await states.revoke(key);
  await t.rejects(present(latest), { code: 'invalid_token' });
  states.rotate = () => Promise.reject(new AuthError('unavailable'));
  await t.rejects(present(latest), { code: 'unavailable' });
  t.strictSame(observed, ['revoked', 'unavailable']);
});
