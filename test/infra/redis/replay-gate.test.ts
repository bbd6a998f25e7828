import { test } from 'tap';
import { makeRedisClient } from '../../../src/infra/redis/client.ts';
import { makeConnections } from '../../../src/infra/redis/connections.ts';
import { makeReplayGate } from '../../../src/infra/redis/replay-gate.ts';
import { makeRedisSessionState } from '../../../src/infra/redis/session-state.ts';
import { redisMissing, testRedis } from '../../support/redis.ts';
import { until } from '../../support/until.ts';

test(
  'a new connection serves nothing before the revocations are replayed',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const redis = makeRedisClient({ url, timeout: 1000 });
    redis.on('error', () => undefined);
    t.teardown(() => {
      redis.disconnect();
    });
    const gate = makeReplayGate(makeConnections(redis, prefix));
    const states = makeRedisSessionState(redis, { prefix, cacheTtl: 60, gate });
    let replays = 0;
    let finish: (() => void) | undefined;
    let fail = true;
    gate.start(
      async () => {
        replays++;
        if (fail) throw new Error('the database is away');
        await new Promise<void>((resolve) => (finish = resolve));
        await states.revokeAll([{ userId: 1, tokenId: 7 }]);
      },
      () => undefined,
    );

    await redis.connect();
    await until(() => replays === 1);
    await t.rejects(states.now(), { code: 'unavailable' }, 'a replay that failed opens nothing');
    fail = false;
    await until(() => finish !== undefined);
    await t.rejects(states.checkAccess({ userId: 1, tokenId: 7 }, 1), { code: 'unavailable' });
    finish?.();
    await until(() => gate.passage() !== null);
    t.equal((await states.checkAccess({ userId: 1, tokenId: 7 }, 1)).outcome, 'revoked');

    finish = undefined;
    const before = replays;
    redis.disconnect(true);
    await until(() => replays > before && finish !== undefined);
    t.equal(gate.passage(), null, 'every new connection is replayed to');
    (finish as (() => void) | undefined)?.();
    await until(() => gate.passage() !== null);
  },
);

test('an answer that was asked for on other connections than there are now is none', async (t) => {
  let current: object[] = [{}, {}];
  let changed = (): void => undefined;
  const gate = makeReplayGate({
    current: () => current,
    onChange: (listener) => (changed = listener),
    check: () => Promise.resolve(),
  });
  let replays = 0;
  let duringReplay = (): void => undefined;
  gate.start(
    () => {
      replays++;
      duringReplay();
      return Promise.resolve();
    },
    () => undefined,
  );
  await until(() => gate.passage() !== null);
  const passage = gate.passage();
  t.equal(gate.passage(), passage, 'while nothing changes');
  current = [...current];
  t.equal(gate.passage(), passage, 'the same connections in a new list');

  current = [{}, ...current.slice(1)];
  t.equal(gate.passage(), null, 'a new master that no event has told of');
  await until(() => gate.passage() !== null);
  t.not(gate.passage(), passage);
  t.equal(replays, 2);

  const [first = {}, second = {}] = current;
  current = [first];
  changed();
  current = [first, second];
  t.equal(gate.passage(), null, 'one that went and came has missed something');
  duringReplay = () => {
    duringReplay = () => undefined;
    current = [{}, second];
  };
  replays = 0;
  await until(() => gate.passage() !== null);
  t.ok(replays >= 2, 'one that came during a replay is replayed to as well');

  current = [];
  t.equal(gate.passage(), null, 'no connection, no answer');
});
