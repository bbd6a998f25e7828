import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { makeVerify, refusalOf, requireProof } from '../../../src/domain/access-tokens/verify.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { withReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser, NO_FACTOR, ROOM } from '../../support/token.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

async function aService({ maxAge = 0, away = false } = {}) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const generation = clock.micros();
  const createdAt = clock.now();
  const session = { name: 'Firefox', createdAt: clock.now(), state: initialState(generation, 'home') };
  const added = await tokens.addSession(1, session, ROOM);
  const llt = await tokens.addLongLived(
    1,
    { name: 'Kitchen', createdAt: clock.now(), kid: 'a key', createdBy: null },
    100,
  );
  const events: AuditEvent[] = [];
  const audit = (event: AuditEvent) => events.push(event);
  const endForReuse = makeEndForReuse({
    tokenStates,
    tokens,
    revocations: tokens,
    clock,
    audit,
    ...someQueues(),
  });
  const counted: string[] = [];
  const noted: unknown[] = [];
  const states = withReadThrough(tokenStates, { tokens, clock, observe: UNOBSERVED });
  const verify = makeVerify({
    readThrough: away
      ? { ...states, checkAccess: () => Promise.reject(new AuthError('unavailable')) }
      : states,
    writeBehind: {
      note: (key, confirmed) => noted.push([key, confirmed]),
      noteUse: (tokenId, usedAt) => noted.push([tokenId, usedAt]),
    },
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: maxAge },
    endForReuse,
    clock,
    audit,
    observe: { ...UNOBSERVED, verification: (type, outcome) => counted.push(`${type} ${outcome}`) },
  });
  const opened = { acr: 'mfa' as const, authTime: Math.floor(createdAt / 1000) };
  const access = { userId: 1, tokenId: added?.id ?? 0, generation, type: 'access', ...opened } as const;
  const exchanged = { ...access, type: 'exchanged' } as const;
  const longLived = { userId: 1, tokenId: llt ?? 0, generation: 0, type: 'llt', ...NO_FACTOR } as const;
  const bearers = { access, exchanged, longLived };
  return {
    clock,
    user,
    createdAt,
    tokens,
    tokenStates,
    verify,
    ...bearers,
    endForReuse,
    events,
    counted,
    noted,
  };
}

const invalid = { name: 'AuthError', code: 'invalid_token' };

test('a good token names its owner and its record', async (t) => {
  const { clock, user, createdAt, verify, access, longLived, counted, noted } = await aService();
  clock.pass(5000);
  const { userId, ...ofAccess } = access;
  const { tokenId, generation } = access;
  t.strictSame(await verify(access, NO_REQUEST), { user, ...ofAccess, createdAt });
  const ofLongLived = { tokenId: longLived.tokenId, type: 'llt', generation: 0, createdAt, ...NO_FACTOR };
  t.strictSame(await verify(longLived, NO_REQUEST), { user, ...ofLongLived });
  t.match(noted, [
    [{ userId, tokenId }, { latest: generation }],
    [longLived.tokenId, clock.now()],
  ]);
  t.strictSame(counted, ['access good', 'llt good']);
});

test('an outage is counted, and no refusal', async (t) => {
  const { verify, access, counted } = await aService({ away: true });
  await t.rejects(verify(access, NO_REQUEST), { code: 'unavailable' });
  t.strictSame(counted, ['access unavailable']);
  t.equal(refusalOf(new AuthError('unavailable')), null);
  t.equal(refusalOf(new Error('a bug')), null);
  t.equal(refusalOf(new AuthError('invalid_token', { reason: 'gone' })), 'gone');
});

test('a superseded access token is refused, and its session stays good', async (t) => {
  const { tokenStates, verify, access, counted } = await aService();
  await verify(access, NO_REQUEST);
  const presented = { generation: access.generation, elapsed: 0, window: 0, caller: 'home' };
  const answer = await tokenStates.rotate(access, presented);
  if (answer.outcome !== 'issued') throw new Error(answer.outcome);
  await t.rejects(verify(access, NO_REQUEST), { ...invalid, reason: 'superseded' });
  t.strictSame(counted, ['access good', 'access superseded']);
  t.match(await verify({ ...access, generation: answer.state.latest }, NO_REQUEST), {
    tokenId: access.tokenId,
  });
});

test('a token of another user, of another type or of an unknown user is refused', async (t) => {
  const { verify, access, longLived } = await aService();
  const foreign = [
    { ...access, userId: 2 },
    { ...longLived, userId: 2 },
    { ...access, tokenId: longLived.tokenId },
    { ...longLived, tokenId: access.tokenId },
    { ...access, tokenId: 99 },
  ];
  for (const bearer of foreign) await t.rejects(verify(bearer, NO_REQUEST), invalid, JSON.stringify(bearer));
});

test('revoked tokens and those of a disabled user are refused', async (t) => {
  const { tokens, tokenStates, verify, access, longLived } = await aService();
  await verify(access, NO_REQUEST);
  await verify(longLived, NO_REQUEST);
  await tokenStates.revoke(longLived);
  await t.rejects(verify(longLived, NO_REQUEST), invalid);
  tokens.disable(1);
  const { verify: elsewhere, tokens: others, access: other } = await aService();
  others.disable(1);
  await t.rejects(elsewhere(other, NO_REQUEST), invalid);
  t.match(
    await verify(access, NO_REQUEST),
    { tokenId: access.tokenId },
    'a user in the store needs no look-up',
  );
});

test('an exchanged token is good for as long as its session, and confirms no pair', async (t) => {
  const { user, createdAt, tokenStates, verify, access, exchanged } = await aService();
  const { tokenId, generation, acr, authTime } = exchanged;
  const principal = { user, tokenId, type: 'access', generation, createdAt, acr, authTime };
  t.strictSame(await verify(exchanged, NO_REQUEST), principal);
  const presented = { generation, elapsed: 0, window: 0, caller: 'home' };
  t.match(await tokenStates.rotate(access, presented), { row: 'current' });
  t.strictSame(await verify(exchanged, NO_REQUEST), principal, 'a refresh does not end it');
  t.match(await tokenStates.rotate(access, presented), { row: 'unconfirmed' });
  for (const bearer of [
    { ...exchanged, userId: 2 },
    { ...exchanged, tokenId: 99 },
  ])
    await t.rejects(verify(bearer, NO_REQUEST), invalid);
  await tokenStates.revoke(exchanged);
  await t.rejects(verify(exchanged, NO_REQUEST), invalid);
});

test('a theft missing from the record is refused, reported once and queued', async (t) => {
  const { clock, tokens, tokenStates, verify, access, endForReuse, events, counted } = await aService();
  const { userId, tokenId } = access;
  await verify(access, NO_REQUEST);
  const presented = { generation: access.generation, elapsed: 0, window: 0, caller: 'home' };
  const next = await tokenStates.rotate(access, presented);
  if (next.outcome !== 'issued') throw new Error(next.outcome);
  const generation = next.state.latest;
  await verify({ ...access, generation }, NO_REQUEST);
  clock.pass(60_000);
  t.match(await tokenStates.rotate(access, presented), { outcome: 'reused' });
  await t.rejects(verify({ ...access, generation }, NO_REQUEST), invalid);
  await t.rejects(verify({ ...access, generation }, NO_REQUEST), invalid);
  t.strictSame(events, [{ event: 'session.reuse_detected', userId, tokenId, generation }]);
  t.strictSame(counted.slice(-2), ['access revoked', 'access revoked']);
  await endForReuse.retry();
  t.match(await tokens.find(tokenId), { record: { revokedAt: clock.now() } });
  t.strictSame(await tokenStates.checkAccess(access, generation), { outcome: 'revoked' });
});

test('a session ends at its greatest age; a long-lived token has none', async (t) => {
  const { clock, verify, access, exchanged, longLived, counted } = await aService({ maxAge: 600 });
  clock.pass(599_999);
  for (const bearer of [access, exchanged]) t.match(await verify(bearer, NO_REQUEST), { type: 'access' });
  clock.pass(1);
  for (const bearer of [access, exchanged]) await t.rejects(verify(bearer, NO_REQUEST), invalid);
  t.match(await verify(longLived, NO_REQUEST), { type: 'llt' });
  clock.distrust();
  await t.rejects(verify(access, NO_REQUEST), { code: 'unavailable' });
  const ofAccess = counted.filter((each) => each.startsWith('access'));
  t.strictSame(ofAccess, ['access good', 'access expired', 'access unavailable']);
});

test('a login is too long ago by the same rule as an expiry, and only by a clock that is trusted', (t) => {
  const clock = aClock();
  const opened = { acr: 'mfa' as const, authTime: clock.now() / 1000 };
  const demand = { acr: 'mfa', maxAge: 300 } as const;
  const insufficient = { code: 'insufficient_user_authentication' };
  const tooOld = { ...insufficient, reason: 'max_age', demand };
  requireProof({ acr: 'mfa', authTime: null }, { acr: 'mfa', maxAge: null }, clock);
  requireProof({ acr: 'phr', authTime: null }, { acr: 'mfa', maxAge: null }, clock);
  requireProof({ acr: 'phr', authTime: null }, { acr: 'phr', maxAge: null }, clock);
  t.throws(
    () => {
      requireProof(opened, { acr: 'phr', maxAge: null }, clock);
    },
    { ...insufficient, reason: 'acr' },
  );
  clock.pass(304_999);
  requireProof(opened, demand, clock);
  clock.pass(1);
  t.throws(() => {
    requireProof(opened, demand, clock);
  }, tooOld);
  clock.distrust();
  t.throws(
    () => {
      requireProof(opened, demand, clock);
    },
    { code: 'unavailable' },
  );
  t.throws(
    () => {
      requireProof(NO_FACTOR, { acr: null, maxAge: 300 }, clock);
    },
    { ...insufficient, reason: 'max_age' },
  );
  t.throws(
    () => {
      requireProof(null, { acr: 'mfa', maxAge: null }, clock);
    },
    { ...insufficient, reason: 'acr' },
  );
  t.end();
});
