import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from './app.ts';
import { testFolder } from './folder.ts';
import { aSecret, KEYS } from './keys.ts';

/**
 * Two replicas behind a balancer that asks the first one if that has no more requests under way than the second. So two
 * requests for one account that wait at once do so at two replicas, and meet at the row's lock instead of in a lane.
 * @param env names the Redis that they share.
 */
export async function twoReplicas(t: Test, env: Environment = {}): Promise<TestApp> {
  const keyFolder = testFolder(t);
  writeFileSync(join(keyFolder, '0001.pem'), KEYS.ES256());
  const shared = {
    SIGNING_KEYS_DIR: keyFolder,
    REFRESH_TOKEN_SECRET: aSecret(),
    FACTOR_KEYS: aSecret(),
    KEY_PUBLISH_LEAD: '0',
    ...env,
  };
  const one = await buildTestApp(t, { env: shared });
  const two = await buildTestApp(t, { env: shared, databaseUrl: one.databaseUrl });
  const busy = new Map([one, two].map((replica) => [replica, 0]));
  const countOf = (replica: TestApp) => busy.get(replica) ?? 0;
  return {
    ...one,
    log: () => one.log() + two.log(),
    audit: () => [...one.audit(), ...two.audit()],
    async inject(options) {
      const replica = countOf(one) <= countOf(two) ? one : two;
      busy.set(replica, countOf(replica) + 1);
      try {
        return await replica.inject(options);
      } finally {
        busy.set(replica, countOf(replica) - 1);
      }
    },
  };
}
