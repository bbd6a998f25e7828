import { test } from 'tap';
import { makeRevoke } from '../../src/domain/tokens/revoke.ts';
import { makeReadThrough } from '../../src/domain/tokens/read-through.ts';
import { systemClock } from '../../src/system-clock.ts';
import { redisMissing } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { raceWorld } from './world.ts';

const skip = { skip: redisMissing };

test('logout against refresh: a pair issued while the logout is on its way dies with it', skip, async (t) => {
  const { states, tokens, revocations, key, generation, rotate } = await raceWorld(t);
  const recorded = stopAfter((...args: Parameters<typeof tokens.revoke>) => tokens.revoke(...args));
  const revoke = makeRevoke({ states, revocations, clock: systemClock, tokens: { revoke: recorded.work } });
  const loggingOut = revoke(key.userId, key.tokenId);
  await recorded.reached;

  const rotated = await rotate(generation);
  t.match(rotated, { outcome: 'issued' }, 'on record it has ended, but nobody was told so yet');
  recorded.go();
  t.equal(await loggingOut, true);
  const latest = rotated.outcome === 'issued' ? rotated.state.latest : 0;
  t.match(await states.checkAccess(key, latest), { outcome: 'revoked' });
  t.match(await rotate(latest), { outcome: 'revoked' });
});

test('logout against refresh: a refresh that rebuilds the session comes too late', skip, async (t) => {
  const { states, tokens, key, generation, revoke, rotate, forgetEverything } = await raceWorld(t);
  await forgetEverything();
  const find = stopAfter((id: number) => tokens.find(id));
  const readThrough = makeReadThrough({ states, tokens: { find: find.work } });
  const refreshing = readThrough(key, 'session', () => rotate(generation));
  await find.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  find.go();
  t.match(await refreshing, { outcome: 'revoked' });
});
