import { test } from 'tap';
import { makeRedisClient } from '../../../src/infra/redis/client.ts';
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
    const gate = makeReplayGate(redis);
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
    await until(() => gate.isOpen());
    t.equal((await states.checkAccess({ userId: 1, tokenId: 7 }, 1)).outcome, 'revoked');

    finish = undefined;
    const before = replays;
    redis.disconnect(true);
    await until(() => replays > before && finish !== undefined);
    t.equal(gate.isOpen(), false, 'every new connection is replayed to');
    (finish as (() => void) | undefined)?.();
    await until(() => gate.isOpen());
  },
);
