import { Cluster } from 'ioredis';
import { t as file, type Test } from 'tap';
import { openRedis } from '../../../src/infra/redis/connection/open-redis.ts';
import { loadConfig, type Environment } from '../../../src/config/config.ts';
import { makeConnections } from '../../../src/infra/redis/connection/connections.ts';
import { makeRedisTokenStates } from '../../../src/infra/redis/token-states.ts';
import { CACHE_TTL, sessionStateContract } from '../../contract/token-states.ts';
import { TEST_ENVIRONMENT } from '../../support/app.ts';
import { age, openGate, aPrefix, redisServer } from '../../support/redis.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

// The contract of session-state stores also holds behind Sentinels and in a cluster.

const environments: Environment[] = redisServersMissing
  ? [{ REDIS_MODE: 'sentinel' }, { REDIS_MODE: 'cluster' }]
  : (await Promise.all([startSentinels(file), startCluster(file)])).map(({ env }) => env);

for (const env of environments) {
  sessionStateContract(String(env.REDIS_MODE), (t) => open(t, env), redisServersMissing);
}

async function open(t: Test, env: Environment) {
  const prefix = aPrefix();
  const redis = openRedis({
    ...loadConfig({ ...TEST_ENVIRONMENT, ...env }),
    REDIS_URL: redisServer(env.REDIS_URL ?? ''),
  });
  redis.on('error', () => undefined);
  t.teardown(() => {
    redis.disconnect();
  });
  await redis.connect();
  // A cluster client's connection counts as connected only after its first check.
  await makeConnections(redis, prefix).checkMasters();
  const tokenStates = makeRedisTokenStates(redis, {
    prefix,
    cacheTtl: CACHE_TTL,
    gate: openGate,
    observe: UNOBSERVED,
  });
  const masters = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const pass = async (seconds: number) => {
    for (const master of masters) await age(master, prefix, seconds);
  };
  return { tokenStates, pass };
}
