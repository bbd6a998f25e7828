import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { redisMissing, testRedis } from './redis.ts';

type Suite = (t: Test, env: Environment) => Promise<void>;

/**
 * Runs a suite with the variables that choose the store of session states: Redis, or in-process if no Redis answers.
 * test/contract holds both stores to the same behaviour, so one of them shows what the service makes of it.
 */
export function onAStore(title: string, suite: Suite): void {
  test(title, (t) => suite(t, redisMissing === false ? redisVariables(t) : {}));
}

/**
 * Runs a suite once on each store, for what two implementations of the rotation and of tokens that ended must answer to
 * a caller alike. Without Redis its half is skipped with a reason.
 */
export function onEachStore(title: string, suite: Suite): void {
  test(`${title} (in-process store)`, (t) => suite(t, {}));
  test(`${title} (Redis)`, { skip: redisMissing }, (t) => suite(t, redisVariables(t)));
}

function redisVariables(t: Test): Environment {
  const { url, prefix } = testRedis(t);
  return { REDIS_URL: url, REDIS_PREFIX: prefix };
}
