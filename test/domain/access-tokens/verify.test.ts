import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { makeVerify } from '../../../src/domain/access-tokens/verify.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../../src/domain/sessions/write-behind.ts';
import { makeReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser } from '../../support/token.ts';

async function aService({ maxAge = 0 } = {}) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user]);
  const states = makeMemorySessionState({ cacheTtl: 3600, now: clock.micros });
  const generation = clock.micros();
  const session = { name: 'Firefox', createdAt: clock.now(), state: initialState(generation, 'home') };
  const added = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
  const llt = await tokens.addLongLived(1, { name: 'Kitchen', createdAt: clock.now(), kid: 'a key' }, 100);
  const events: AuditEvent[] = [];
  const revoke = makeRevoke({ states, tokens, revocations: tokens, clock });
  const endForReuse = makeEndForReuse({ states, revoke });
  const verify = makeVerify({
    states,
    readThrough: makeReadThrough({ states, tokens }),
    writeBehind: makeWriteBehind({ writer: tokens, states, revocations: tokens, clock }),
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: maxAge },
    endForReuse,
    clock,
    audit: (event) => events.push(event),
  });
  const access = { userId: 1, tokenId: added?.id ?? 0, generation, type: 'access' } as const;
  const longLived = { userId: 1, tokenId: llt ?? 0, generation: 0, type: 'llt' } as const;
  return { clock, user, tokens, states, verify, access, longLived, endForReuse, events };
}

const invalid = { name: 'AuthError', code: 'invalid_token' };

test('a good token names its owner and its record', async (t) => {
  const { user, verify, access, longLived } = await aService();
  t.strictSame(await verify(access), { user, tokenId: access.tokenId, type: 'access' });
  t.strictSame(await verify(longLived), { user, tokenId: longLived.tokenId, type: 'llt' });
});

test('a superseded access token is refused, and its session lives on', async (t) => {
  const { states, verify, access } = await aService();
  await verify(access);
  const presented = { generation: access.generation, elapsed: 0, window: 0, client: 'home' };
  const answer = await states.rotate(access, presented);
  if (answer.outcome !== 'issued') throw new Error(answer.outcome);
  await t.rejects(verify(access), invalid);
  t.match(await verify({ ...access, generation: answer.state.latest }), { tokenId: access.tokenId });
});

test('a token of another user, of another type or of nobody is refused', async (t) => {
  const { verify, access, longLived } = await aService();
  const foreign = [
    { ...access, userId: 2 },
    { ...longLived, userId: 2 },
    { ...access, tokenId: longLived.tokenId },
    { ...longLived, tokenId: access.tokenId },
    { ...access, tokenId: 99 },
  ];
  for (const bearer of foreign) await t.rejects(verify(bearer), invalid, JSON.stringify(bearer));
});

test('a revoked token and those of a disabled user are refused', async (t) => {
  const { tokens, states, verify, access, longLived } = await aService();
  await verify(access);
  await verify(longLived);
  await states.revoke(longLived);
  await t.rejects(verify(longLived), invalid);
  tokens.disable(1);
  const { verify: elsewhere, tokens: others, access: other } = await aService();
  others.disable(1);
  await t.rejects(elsewhere(other), invalid);
  t.match(await verify(access), { tokenId: access.tokenId }, 'a user in the store is asked of nobody else');
});

test('a theft that the record does not know is refused, told once and queued', async (t) => {
  const { clock, tokens, states, verify, access, endForReuse, events } = await aService();
  const { userId, tokenId } = access;
  await verify(access);
  const presented = { generation: access.generation, elapsed: 0, window: 0, client: 'home' };
  const next = await states.rotate(access, presented);
  if (next.outcome !== 'issued') throw new Error(next.outcome);
  const generation = next.state.latest;
  await verify({ ...access, generation });
  clock.pass(60_000);
  t.match(await states.rotate(access, presented), { outcome: 'reused' });
  await t.rejects(verify({ ...access, generation }), invalid);
  await t.rejects(verify({ ...access, generation }), invalid);
  t.strictSame(events, [{ event: 'session.reuse_detected', userId, tokenId, generation }]);
  await endForReuse.retry();
  t.match(await tokens.find(tokenId), { record: { revokedAt: clock.now() } });
  t.strictSame(await states.checkAccess(access, generation), { outcome: 'revoked' });
});

test('a session ends at its greatest age; a long-lived token has none', async (t) => {
  const { clock, verify, access, longLived } = await aService({ maxAge: 600 });
  clock.pass(599_999);
  t.match(await verify(access), { type: 'access' });
  clock.pass(1);
  await t.rejects(verify(access), invalid);
  t.match(await verify(longLived), { type: 'llt' });
});
