import { setTimeout } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeRedisSessionState } from '../../../src/infra/redis/session-state.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { openGate, quietRedisClient } from '../../support/redis.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { aSession, aUser } from '../../support/token.ts';
import { until } from '../../support/until.ts';

const skip = redisServersMissing;
const key = { userId: 7, tokenId: 11 };
const SECOND = 1_000_000;

/** What a replica has of the sessions in Redis. */
async function aReplica(t: Test, url: string) {
  const redis = quietRedisClient({ url, timeout: 500 });
  t.teardown(() => {
    redis.disconnect();
  });
  await redis.connect();
  return makeRedisSessionState(redis, { prefix: '', cacheTtl: 3600, gate: openGate });
}

// Bytes that were sent are the kernel's: it delivers them when the network is back, although we gave up long ago.
for (const { window, away, why } of [
  { window: 1, away: 6, why: 'longer than a request may take' },
  { window: 0, away: 1.5, why: 'longer than the window' },
]) {
  test(`a refresh that the network held back for ${why} signs nobody out`, { skip }, async (t) => {
    const server = await startRedis(t);
    const proxy = await faultProxy(t, server.url);
    const [cutOff, other] = [await aReplica(t, proxy.url), await aReplica(t, server.url)];
    const presenting = (generation: number) => ({
      generation,
      elapsed: 0,
      window: window * SECOND,
      client: 'home',
    });
    const now = await other.now();
    await other.put(aSession(initialState(now, 'home')), aUser(), now);
    const first = await cutOff.rotate(key, presenting(now));
    if (first.outcome !== 'issued') throw new Error(first.outcome);

    proxy.set('hang');
    await t.rejects(cutOff.rotate(key, presenting(first.state.latest)), { code: 'unavailable' });
    const second = await other.rotate(key, presenting(first.state.latest));
    if (second.outcome !== 'issued') throw new Error(second.outcome);
    t.match(await other.checkAccess(key, second.state.latest), { outcome: 'good' }, 'the owner goes on');

    await setTimeout(away * 1000);
    const calls = async () =>
      /^cmdstat_evalsha:calls=\d+/m.exec(String(await server.ask('INFO', 'all')))?.[0];
    const before = await calls();
    proxy.set('pass');
    await until(async () => (await calls()) !== before);
    t.match(await other.checkAccess(key, second.state.latest), { outcome: 'good' }, 'nothing has changed');
    t.match(await other.rotate(key, presenting(second.state.latest)), { outcome: 'issued', row: 'current' });
  });
}
