import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/token-states.ts';
import { aSession, aUser } from '../../support/token.ts';

/** A clock that the test moves. Each call adds a microsecond. */
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
  return { tokenStates: makeMemoryTokenStates({ cacheTtl: CACHE_TTL, now }), pass };
});

test('a sweep removes expired states only', async (t) => {
  const { now, pass } = aClock();
  const tokenStates = makeMemoryTokenStates({ cacheTtl: CACHE_TTL, now });
  const key = { userId: 7, tokenId: 11 };
  const at = await tokenStates.preparePut(7);
  await tokenStates.put(aSession(initialState(at, 'home')), aUser(), at);
  await tokenStates.revoke({ userId: 7, tokenId: 12 });
  tokenStates.sweep();
  t.match(await tokenStates.checkAccess(key, at), { outcome: 'good' });
  await pass(CACHE_TTL + 1);
  tokenStates.sweep();
  t.match(await tokenStates.checkAccess(key, at), { outcome: 'missing' });
  t.match(await tokenStates.checkAccess({ userId: 7, tokenId: 12 }, at), { outcome: 'revoked' });
});
