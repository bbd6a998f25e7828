import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startRedis } from '../../support/redis-server.ts';
import { ready, startService } from '../../support/service.ts';
import type { ObservedSite } from './observed-site.ts';
import { visitor } from './visitors.ts';

// Each is an installation of its own, which nobody else's alerts depend on.

async function ownStores(t: Test): Promise<Environment> {
  const [{ url }, redis] = [await testDatabase(t), await startRedis(t)];
  return { DATABASE_URL: url, REDIS_URL: redis.url };
}

/** More logins than it can hash. */
export async function crowdedReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await startService(t, {
    ...(await ownStores(t)),
    ...{ HASH_CONCURRENCY: '1', HASH_QUEUE: '2', SCRYPT_LOG_N: '14' },
  });
  await ready(service);
  const stopping = new AbortController();
  const { logIn } = visitor(service.url, '203.0.113.70');
  const crowd = Array.from({ length: 8 }, async () => {
    while (!stopping.signal.aborted) {
      const { status } = await logIn('nobody');
      if (status === 503) await sleep(50);
    }
  });
  await sleep(500);
  site.scrape('crowded', service);
  await site.fire('crowded', 'LatchkeyLoginsShed', 'LatchkeyHashSaturated');
  stopping.abort();
  await Promise.all(crowd);
}

/** It gets a fraction of a processor, in pieces. */
export async function lateReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await startService(t, await ownStores(t));
  await ready(service);
  const { process } = service;
  const stopping = new AbortController();
  const fits = (async () => {
    while (!stopping.signal.aborted) {
      process.kill('SIGSTOP');
      await sleep(300);
      process.kill('SIGCONT');
      await sleep(60);
    }
  })();
  await sleep(2000);
  site.scrape('late', service);
  try {
    await site.fire('late', 'LatchkeyEventLoopLate');
  } finally {
    stopping.abort();
    await fits;
  }
}

/** Its Redis has never been there. */
export async function unreadyReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await startService(t, { ...(await ownStores(t)), REDIS_URL: 'redis://127.0.0.1:1' });
  site.scrape('unready', service);
  await site.fire('unready', 'LatchkeyReplicaNotReady', 'LatchkeyNoneReady', 'LatchkeyStoreDown');
}
