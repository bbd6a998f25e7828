import { test } from 'tap';
import { makeRevokeTokens } from '../../src/domain/tokens/revoke.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { redisMissing } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { raceWorld } from './world.ts';

const skip = { skip: redisMissing };

test('logout against refresh: a pair issued during the logout ends with it', skip, async (t) => {
  const { tokenStates, tokens, revocations, key, generation, rotate } = await raceWorld(t);
  const recorded = stopAfter((...args: Parameters<typeof tokens.revokeMany>) => tokens.revokeMany(...args));
  const { revoke } = makeRevokeTokens({
    ...someQueues(),
    tokenStates,
    revocations,
    clock: systemClock,
    tokens: { ...tokens, revokeMany: recorded.work },
    endOfTick: () => Promise.resolve(),
    pause: () => Promise.resolve(),
  });
  const loggingOut = revoke(key.userId, key.tokenId);
  await recorded.reached;

  const rotated = await rotate(generation);
  t.match(rotated, { outcome: 'issued' }, 'the record has ended, but the fast store does not know yet');
  recorded.go();
  t.equal(await loggingOut, true);
  const latest = rotated.outcome === 'issued' ? rotated.state.latest : 0;
  t.match(await tokenStates.checkAccess(key, latest), { outcome: 'revoked' });
  t.match(await rotate(latest), { outcome: 'revoked' });
});

test('logout against refresh: a refresh that rebuilds the session comes too late', skip, async (t) => {
  const { key, generation, revoke, rebuilding } = await raceWorld(t);
  const { find, readThrough } = await rebuilding();
  const presented = { generation, elapsed: 0, window: 0, caller: 'home' };
  const refreshing = readThrough.rotate(key, presented);
  await find.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  find.go();
  t.match(await refreshing, { outcome: 'revoked' });
});
