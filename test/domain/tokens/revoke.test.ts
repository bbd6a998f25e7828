import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeRevoke, makeRevokeByCaller } from '../../../src/domain/tokens/revoke.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aSession, aUser } from '../../support/token.ts';

async function aLiveSession() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2 })]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const now = clock.micros();
  const state = initialState(now, 'home');
  const session = { name: 'Firefox', createdAt: clock.now(), state };
  const added = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
  const key = { userId: 1, tokenId: added?.id ?? 0 };
  await tokenStates.put(aSession(state, { id: key.tokenId, userId: 1 }), user, now);
  return { clock, tokens, tokenStates, key, now };
}

test('a revocation reaches the record and the store, and can be repeated', async (t) => {
  const { clock, tokens, tokenStates, key, now } = await aLiveSession();
  const revoke = makeRevoke({ tokenStates, tokens, revocations: tokens, clock });
  let ended = 0;
  for (let i = 0; i < 2; i++) {
    t.equal(await revoke(1, key.tokenId, 'session', () => ended++), true);
    t.equal(ended, 1, 'told once');
    t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
    t.strictSame(await tokenStates.checkAccess(key, now), { outcome: 'revoked' });
    t.strictSame(await tokens.pending(9), [], 'its tombstone is known to stand');
  }
  clock.pass(3 * 3600_000);
  t.equal(await revoke(1, key.tokenId), true);
  t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' }, 'a repeat adds no tombstone');
});

test('a token of another user is not revoked and gets no tombstone', async (t) => {
  const { clock, tokens, tokenStates, key, now } = await aLiveSession();
  const revoke = makeRevoke({ tokenStates, tokens, revocations: tokens, clock });
  t.equal(await revoke(2, key.tokenId), false);
  t.equal(await revoke(1, key.tokenId, 'llt'), false);
  t.equal(await revoke(1, 99), false);
  t.match(await tokenStates.checkAccess(key, now), { outcome: 'good' });
  t.match(await tokenStates.checkAccess({ userId: 1, tokenId: 99 }, now), { outcome: 'missing' });
});

test('a caller with a good token ends another of its own, only of the requested type', async (t) => {
  const { clock, tokens, tokenStates, key, now } = await aLiveSession();
  const ports = { tokenStates, tokens, revocations: tokens, clock };
  const session = { name: 'Firefox', createdAt: clock.now(), state: initialState(now, 'work') };
  const asking = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
  const caller = { userId: 1, tokenId: asking?.id ?? 0 };
  const revokeByCaller = makeRevokeByCaller(ports);
  t.equal(await revokeByCaller(caller, key.tokenId, 'llt'), false);
  t.equal(await revokeByCaller(caller, 99), false);
  t.match(await tokenStates.checkAccess(key, now), { outcome: 'good' });
  t.match(await tokenStates.checkAccess({ userId: 1, tokenId: 99 }, now), { outcome: 'missing' });
  let ended = 0;
  for (let i = 0; i < 2; i++) {
    t.equal(await revokeByCaller(caller, key.tokenId, 'session', () => ended++), true);
    t.equal(ended, 1, 'told once');
    t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
    t.strictSame(await tokenStates.checkAccess(key, now), { outcome: 'revoked' });
  }
  const third = await tokens.addSession(1, session, { limit: 100, liveSince: 0 });
  t.equal(await revokeByCaller(caller, third?.id ?? 0), true, 'nothing has to be told');
  await makeRevoke(ports)(1, caller.tokenId);
  await t.rejects(revokeByCaller(caller, key.tokenId), { code: 'invalid_token' });
});

test('it fails until the store has the tombstone, and a retry finishes it', async (t) => {
  const { clock, tokens, tokenStates, key, now } = await aLiveSession();
  const away = makeRevoke({
    tokenStates: { revoke: () => Promise.reject(new AuthError('unavailable')) },
    tokens,
    revocations: tokens,
    clock,
  });
  let ended = 0;
  await t.rejects(
    away(1, key.tokenId, undefined, () => ended++),
    { code: 'unavailable' },
  );
  t.equal(ended, 1, 'the end on record is told, because a retry ends nothing');
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } }, 'the record came first');
  const revoke = makeRevoke({ tokenStates, tokens, revocations: tokens, clock });
  t.equal(await revoke(1, key.tokenId, undefined, () => ended++), true);
  t.equal(ended, 1, 'told once');
  t.strictSame(await tokenStates.checkAccess(key, now), { outcome: 'revoked' });
});

test('without the record no tombstone is set', async (t) => {
  const { clock, tokens: revocations, tokenStates, key, now } = await aLiveSession();
  const tokens = { revoke: () => Promise.reject(new AuthError('unavailable')) };
  await t.rejects(makeRevoke({ tokenStates, tokens, revocations, clock })(1, key.tokenId), {
    code: 'unavailable',
  });
  t.match(await tokenStates.checkAccess(key, now), { outcome: 'good' });
});
