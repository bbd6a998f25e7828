import { setTimeout } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeRedisTokenStates } from '../../../src/infra/redis/token-states.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { openGate, quietRedisClient } from '../../support/redis.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';
import { aSession, aUser } from '../../support/token.ts';
import { until } from '../../support/until.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

const skip = redisServersMissing;
const key = { userId: 7, tokenId: 11 };
const SECOND = 1_000_000;

/** A replica's connection to the sessions in Redis. */
async function aReplica(t: Test, url: string) {
  const redis = quietRedisClient(t, { url, timeout: 500 });
  await redis.connect();
  return makeRedisTokenStates(redis, { prefix: '', cacheTtl: 3600, gate: openGate, observe: UNOBSERVED });
}

// The kernel delivers sent bytes once the network is back, long after the client gave up.
for (const { window, away, why } of [
  { window: 1, away: 6, why: 'longer than a request may take' },
  { window: 0, away: 1.5, why: 'longer than the window' },
]) {
  test(`a refresh that the network delayed ${why} signs no user out`, { skip }, async (t) => {
    const server = await startRedis(t);
    const proxy = await faultProxy(t, server.url);
    const [cutOff, other] = [await aReplica(t, proxy.url), await aReplica(t, server.url)];
    const presenting = (generation: number) => ({
      generation,
      elapsed: 0,
      window: window * SECOND,
      caller: 'home',
    });
    const now = await other.preparePut(7);
    await other.put(aSession(initialState(now, 'home')), aUser(), now);
    const first = await cutOff.rotate(key, presenting(now));
    if (first.outcome !== 'issued') throw new Error(first.outcome);

    proxy.set('hang');
    await t.rejects(cutOff.rotate(key, presenting(first.state.latest)), { code: 'unavailable' });
    const second = await other.rotate(key, presenting(first.state.latest));
    if (second.outcome !== 'issued') throw new Error(second.outcome);
    t.match(
      await other.checkAccess(key, second.state.latest),
      { outcome: 'good' },
      'the owner’s pair is good',
    );

    await setTimeout(away * 1000);
    const calls = async () =>
      /^cmdstat_evalsha:calls=\d+/m.exec(String(await server.ask('INFO', 'all')))?.[0];
    const before = await calls();
    proxy.set('pass');
    await until(async () => (await calls()) !== before);
    t.match(await other.checkAccess(key, second.state.latest), { outcome: 'good' }, 'the state is unchanged');
    t.match(await other.rotate(key, presenting(second.state.latest)), { outcome: 'issued', row: 'current' });
  });
}
