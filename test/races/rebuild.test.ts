import { test } from 'tap';
import { redisMissing } from '../support/redis.ts';
import { raceWorld } from './world.ts';

const skip = { skip: redisMissing };

test('rebuild against revoke: a record read before the revocation is not put back', skip, async (t) => {
  const { key, generation, revoke, rebuilding, isRevoked } = await raceWorld(t);
  const { find, readThrough } = await rebuilding();
  const verifying = readThrough.checkAccess(key, generation);
  await find.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  find.go();
  t.match(await verifying, { outcome: 'revoked' });
  t.equal(await isRevoked(), true);
});

test('rebuild against rotate: a state older than the current one is not put back', skip, async (t) => {
  const { tokenStates, tokens, key, generation, user, rotate, rebuilding } = await raceWorld(t);
  const { find, readThrough } = await rebuilding();
  const verifying = readThrough.checkAccess(key, generation);
  await find.reached;

  // Meanwhile another replica rebuilds, and the client refreshes there.
  const asOf = await tokenStates.preparePut(key.userId);
  const record = (await tokens.find(key.tokenId))?.record;
  if (!record) throw new Error('no record');
  t.equal(await tokenStates.put(record, user, asOf), true);
  const rotated = await rotate(generation);
  t.match(rotated, { outcome: 'issued' });

  find.go();
  t.match(await verifying, { outcome: 'superseded' }, 'checked against the newer state');
  const latest = rotated.outcome === 'issued' ? rotated.state.latest : 0;
  t.match(await tokenStates.checkAccess(key, latest), { outcome: 'good' });
});
