import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { redisMissing, testRedis } from './redis.ts';

/**
 * Runs a suite once on each store of session states, with the variables that choose the store. Without Redis its half
 * is skipped with a reason.
 */
export function onEachStore(title: string, suite: (t: Test, env: Environment) => Promise<void>): void {
  test(`${title} (in-process store)`, (t) => suite(t, {}));
  test(`${title} (Redis)`, { skip: redisMissing }, (t) => {
    const { url, prefix } = testRedis(t);
    return suite(t, { REDIS_URL: url, REDIS_PREFIX: prefix });
  });
}
