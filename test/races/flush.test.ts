import { test } from 'tap';
import { makeWriteBehind } from '../../src/domain/tokens/write-behind.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import type { StateWriter } from '../../src/domain/tokens/ports.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { redisMissing } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { duringUncommitted, raceWorld } from './world.ts';

const skip = { skip: redisMissing };

/** Write-behind with one queued rotation. */
async function withRotation(
  world: Awaited<ReturnType<typeof raceWorld>>,
  saveStates: StateWriter['saveStates'] = (tokenStates) => world.writer.saveStates(tokenStates),
) {
  const { tokenStates, revocations, writer, key, rotate, generation } = world;
  const writeBehind = makeWriteBehind({
    ...someQueues(),
    tokenStates,
    revocations,
    writer: { ...writer, saveStates },
    clock: systemClock,
  });
  const rotated = await rotate(generation);
  if (rotated.outcome !== 'issued') throw new Error(rotated.outcome);
  writeBehind.note(key, rotated.state);
  return { writeBehind, latest: rotated.state.latest };
}

test('flush against revoke: a revocation that is being committed wins', skip, async (t) => {
  const world = await raceWorld(t);
  const { url, key, tokens, generation, isRevoked } = world;
  const { writeBehind } = await withRotation(world);
  await duringUncommitted(
    url,
    `UPDATE tokens SET revoked_at = now(), pending = true WHERE id = ${key.tokenId}`,
    () => writeBehind.flush(),
  );
  const record = (await tokens.find(key.tokenId))?.record;
  t.not(record?.revokedAt, null);
  t.equal(record?.state.latest, generation, 'the record of a revoked session does not move on');
  t.equal(await isRevoked(), true, 'its tombstone stands');
});

test('flush against revoke: a flush just written does not undo the revocation', skip, async (t) => {
  const world = await raceWorld(t);
  const { key, tokens, revoke, forgetEverything, isRevoked } = world;
  const save = stopAfter((tokenStates: Parameters<StateWriter['saveStates']>[0]) =>
    world.writer.saveStates(tokenStates),
  );
  const { writeBehind, latest } = await withRotation(world, save.work);
  const flushing = writeBehind.flush();
  await save.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  save.go();
  await flushing;
  t.equal(await isRevoked(), true);
  const record = (await tokens.find(key.tokenId))?.record;
  t.equal(record?.state.latest, latest);
  t.not(record?.revokedAt, null);
  await forgetEverything();
  t.not((await tokens.find(key.tokenId))?.record.revokedAt, null, 'nor can a rebuild');
});
