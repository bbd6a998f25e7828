import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/session-state.ts';
import { aSession, aUser } from '../../support/token.ts';

/** A clock that a test moves; between two calls a microsecond goes by, as it would. */
function aClock() {
  let micros = 1_795_000_000_000_001;
  return {
    now: () => micros++,
    pass: (seconds: number) => {
      micros += seconds * 1_000_000;
      return Promise.resolve();
    },
  };
}

sessionStateContract('memory', () => {
  const { now, pass } = aClock();
  return { states: makeMemorySessionState({ cacheTtl: CACHE_TTL, now }), pass };
});

test('sweeping drops what has expired, and nothing else', async (t) => {
  const { now, pass } = aClock();
  const states = makeMemorySessionState({ cacheTtl: CACHE_TTL, now });
  const key = { userId: 7, tokenId: 11 };
  const at = await states.now();
  await states.put(aSession(initialState(at, 'home')), aUser(), at);
  await states.revoke({ userId: 7, tokenId: 12 });
  states.sweep();
  t.match(await states.checkAccess(key, at), { outcome: 'good' });
  await pass(CACHE_TTL + 1);
  states.sweep();
  t.match(await states.checkAccess(key, at), { outcome: 'missing' });
  t.match(await states.checkAccess({ userId: 7, tokenId: 12 }, at), { outcome: 'revoked' });
});
