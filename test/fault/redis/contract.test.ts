import { Cluster } from 'ioredis';
import { t as file, type Test } from 'tap';
import { makeSessionRedis } from '../../../src/compose-states.ts';
import { loadConfig, type Environment } from '../../../src/config.ts';
import { makeConnections } from '../../../src/infra/redis/connections.ts';
import { makeRedisSessionState } from '../../../src/infra/redis/session-state.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/session-state.ts';
import { TEST_ENVIRONMENT } from '../../support/app.ts';
import { age, openGate, aPrefix } from '../../support/redis.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';

// What every store of session states does, it does behind Sentinels and in a cluster.

const environments: Environment[] = redisServersMissing
  ? [{ REDIS_MODE: 'sentinel' }, { REDIS_MODE: 'cluster' }]
  : (await Promise.all([startSentinels(file), startCluster(file)])).map(({ env }) => env);

for (const env of environments) {
  sessionStateContract(String(env.REDIS_MODE), (t) => open(t, env), redisServersMissing);
}

async function open(t: Test, env: Environment) {
  const prefix = aPrefix();
  const redis = makeSessionRedis(loadConfig({ ...TEST_ENVIRONMENT, ...env }), env.REDIS_URL ?? '');
  redis.on('error', () => undefined);
  t.teardown(() => {
    redis.disconnect();
  });
  await redis.connect();
  // Before it has been asked for the first time a connection of a cluster's client is none yet.
  await makeConnections(redis, prefix).check();
  const states = makeRedisSessionState(redis, { prefix, cacheTtl: CACHE_TTL, gate: openGate });
  const masters = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const pass = async (seconds: number) => {
    for (const master of masters) await age(master, prefix, seconds);
  };
  return { states, pass };
}
