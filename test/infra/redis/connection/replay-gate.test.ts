import { test } from 'tap';
import { makeRedisClient } from '../../../../src/infra/redis/connection/open-redis.ts';
import { makeConnections } from '../../../../src/infra/redis/connection/connections.ts';
import { makeReplayGate } from '../../../../src/infra/redis/connection/replay-gate.ts';
import { makeRedisTokenStates } from '../../../../src/infra/redis/token-states.ts';
import { redisMissing, redisServer, testRedis } from '../../../support/redis.ts';
import { until } from '../../../support/until.ts';
import { UNOBSERVED } from '../../../support/unobserved.ts';

test(
  'a new connection serves no request before the revocations are replayed',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const redis = makeRedisClient({ server: redisServer(url), timeout: 1000 });
    redis.on('error', () => undefined);
    t.teardown(() => {
      redis.disconnect();
    });
    const gate = makeReplayGate(makeConnections(redis, prefix), () => true);
    const tokenStates = makeRedisTokenStates(redis, { prefix, cacheTtl: 60, gate, observe: UNOBSERVED });
    let replays = 0;
    let finish: (() => void) | undefined;
    let fail = true;
    const failures: string[] = [];
    gate.start(
      async () => {
        replays++;
        if (fail) throw new Error('the database is away');
        await new Promise<void>((resolve) => (finish = resolve));
        await tokenStates.revokeAll([{ userId: 1, tokenId: 7 }]);
      },
      { failed: (reason) => failures.push(reason), replayed: () => failures.push('replayed') },
    );

    await redis.connect();
    await until(() => replays === 1);
    await t.rejects(tokenStates.now(), { code: 'unavailable' }, 'a failed replay keeps the gate closed');
    fail = false;
    await until(() => finish !== undefined);
    await t.rejects(tokenStates.checkAccess({ userId: 1, tokenId: 7 }, 1), { code: 'unavailable' });
    finish?.();
    await until(() => gate.connectionEpoch() !== null);
    t.equal((await tokenStates.checkAccess({ userId: 1, tokenId: 7 }, 1)).outcome, 'revoked');
    t.strictSame(failures, ['the database is away', 'replayed'], 'each reason is reported once');

    finish = undefined;
    const before = replays;
    redis.disconnect(true);
    await until(() => replays > before && finish !== undefined);
    t.equal(gate.connectionEpoch(), null, 'every new connection gets a replay');
    (finish as (() => void) | undefined)?.();
    await until(() => gate.connectionEpoch() !== null);
  },
);

test('an answer is refused if the connections changed since its request', async (t) => {
  let current: object[] = [{}, {}];
  let changed = (): void => undefined;
  let isOurs = true;
  const connections = {
    current: () => current,
    onChange: (listener: () => void) => (changed = listener),
    checkMasters: () => Promise.resolve(),
    checkMemory: () => Promise.resolve(),
  };
  const gate = makeReplayGate(connections, () => isOurs);
  let replays = 0;
  let duringReplay = (): void => undefined;
  gate.start(
    () => {
      replays++;
      duringReplay();
      return Promise.resolve();
    },
    { failed: () => undefined, replayed: () => undefined },
  );
  await until(() => gate.connectionEpoch() !== null);
  const connectionEpoch = gate.connectionEpoch();
  t.equal(gate.connectionEpoch(), connectionEpoch, 'while nothing changes');
  current = [...current];
  t.equal(gate.connectionEpoch(), connectionEpoch, 'the same connections in a new list');

  current = [{}, ...current.slice(1)];
  t.equal(gate.connectionEpoch(), null, 'a new master without an event');
  await until(() => gate.connectionEpoch() !== null);
  t.not(gate.connectionEpoch(), connectionEpoch);
  t.equal(replays, 2);

  const [first = {}, second = {}] = current;
  current = [first];
  changed();
  current = [first, second];
  t.equal(gate.connectionEpoch(), null, 'a reconnected server may have lost writes');
  duringReplay = () => {
    duringReplay = () => undefined;
    current = [{}, second];
  };
  replays = 0;
  await until(() => gate.connectionEpoch() !== null);
  t.ok(replays >= 2, 'a connection opened during a replay gets its own');

  isOurs = false;
  t.equal(gate.connectionEpoch(), null, 'found to be the Redis of another installation');
  isOurs = true;
  await until(() => gate.connectionEpoch() !== null);

  current = [];
  t.equal(gate.connectionEpoch(), null, 'no connection, no answer');
});
