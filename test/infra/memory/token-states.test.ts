import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemoryTokenStates, wallMicros } from '../../../src/infra/memory/token-states.ts';
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

test('its clock is the wall clock, with the microseconds between two ticks', (t) => {
  let [wall, passed] = [1_795_000_000_000_300, 5_000_100];
  const now = wallMicros({ now: () => Math.floor(wall / 1000), monotonic: () => passed / 1000 });
  let before = now();
  const pass = (micros: number) => {
    wall += micros;
    passed += micros;
    const [last, time] = [before, now()];
    before = time;
    t.ok(Math.abs(time - wall) <= 1000, `${time} at ${wall}`);
    return time - last;
  };
  for (let i = 0; i < 300; i++) t.ok(pass(13) > 0, 'each time is later than the one before');
  for (const jump of [3_600_000_000, -7_200_000_000]) {
    wall += jump;
    for (let i = 0; i < 100; i++) t.ok(pass(13) >= 0 || i === 0, 'it goes back with the jump only');
    t.ok(pass(13) > 0);
  }
  t.end();
});
