import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aSession, aUser } from '../../support/token.ts';

async function aLiveSession() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2 })]);
  const states = makeMemorySessionState({ cacheTtl: 3600, now: clock.micros });
  const now = clock.micros();
  const state = initialState(now, 'home');
  const session = { name: 'Firefox', createdAt: clock.now(), state };
  const added = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
  const key = { userId: 1, tokenId: added?.id ?? 0 };
  await states.put(aSession(state, { id: key.tokenId, userId: 1 }), user, now);
  return { clock, tokens, states, key, now };
}

test('a revocation reaches the record and the store, and may be repeated', async (t) => {
  const { clock, tokens, states, key, now } = await aLiveSession();
  const revoke = makeRevoke({ states, tokens, revocations: tokens, clock });
  for (let i = 0; i < 2; i++) {
    t.equal(await revoke(1, key.tokenId, 'session'), true);
    t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
    t.strictSame(await states.checkAccess(key, now), { outcome: 'revoked' });
  }
});

test('what the user does not have is not revoked, nor buried', async (t) => {
  const { clock, tokens, states, key, now } = await aLiveSession();
  const revoke = makeRevoke({ states, tokens, revocations: tokens, clock });
  t.equal(await revoke(2, key.tokenId), false);
  t.equal(await revoke(1, key.tokenId, 'llt'), false);
  t.equal(await revoke(1, 99), false);
  t.match(await states.checkAccess(key, now), { outcome: 'good' });
  t.match(await states.checkAccess({ userId: 1, tokenId: 99 }, now), { outcome: 'missing' });
});

test('it is not said to be done before the store has it, and a retry finishes it', async (t) => {
  const { clock, tokens, states, key, now } = await aLiveSession();
  const away = makeRevoke({
    states: { revoke: () => Promise.reject(new AuthError('unavailable')) },
    tokens,
    revocations: tokens,
    clock,
  });
  await t.rejects(away(1, key.tokenId), { code: 'unavailable' });
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } }, 'the record came first');
  t.equal(await makeRevoke({ states, tokens, revocations: tokens, clock })(1, key.tokenId), true);
  t.strictSame(await states.checkAccess(key, now), { outcome: 'revoked' });
});

test('nothing is buried when the record cannot be reached', async (t) => {
  const { clock, tokens: revocations, states, key, now } = await aLiveSession();
  const tokens = { revoke: () => Promise.reject(new AuthError('unavailable')) };
  await t.rejects(makeRevoke({ states, tokens, revocations, clock })(1, key.tokenId), {
    code: 'unavailable',
  });
  t.match(await states.checkAccess(key, now), { outcome: 'good' });
});
