import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import type { Pair } from '../../support/client.ts';
import { clockAhead } from '../../support/faketime.ts';
import { testFolder } from '../../support/folder.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startRedis } from '../../support/redis-server.ts';
import { startTlsRedis } from '../../support/redis-tls.ts';
import { readyService, startService } from '../../support/service.ts';
import { sql } from '../../support/sql.ts';
import type { ObservedSite } from './observed-site.ts';
import { visitor } from './visitors.ts';

// Each replica is a separate installation, so the alerts of the others do not depend on it.

async function ownStores(t: Test): Promise<Environment> {
  const [{ url }, redis] = [await testDatabase(t), await startRedis(t)];
  return { DATABASE_URL: url, REDIS_URL: redis.url };
}

/** More logins than the replica can hash. */
export async function crowdedReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await readyService(t, {
    ...(await ownStores(t)),
    HASH_CONCURRENCY: '1',
    HASH_QUEUE: '2',
    SCRYPT_LOG_N: '14',
    // Every wrong password must be hashed.
    RATE_LIMIT_ACCOUNT: '0',
  });
  const stopping = new AbortController();
  const { logIn } = visitor(service.url, '203.0.113.70');
  const crowd = Array.from({ length: 8 }, async () => {
    while (!stopping.signal.aborted) {
      const { status } = await logIn('unknown');
      if (status === 503) await sleep(50);
    }
  });
  await sleep(500);
  site.scrape('crowded', service);
  await site.fire('crowded', 'LatchkeyLoginsShed', 'LatchkeyHashSaturated');
  stopping.abort();
  await Promise.all(crowd);
}

/** The replica gets a fraction of a CPU, in slices. */
export async function lateReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await readyService(t, await ownStores(t));
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

/** It keeps most of its memory limit for ever. Only Node reports the limit: no kernel enforces it. */
export async function fullReplica(t: Test, site: ObservedSite): Promise<void> {
  const leak = `process.constrainedMemory=()=>${400 * 1024 ** 2};globalThis.kept=Buffer.alloc(${300 * 1024 ** 2},1)`;
  const service = await readyService(t, {
    ...(await ownStores(t)),
    NODE_OPTIONS: `--import=data:text/javascript,${leak}`,
  });
  site.scrape('full', service);
  await site.fire('full', 'LatchkeyMemoryHigh');
}

/** Its Redis has no memory left for more. */
export async function crammedRedis(t: Test, site: ObservedSite): Promise<void> {
  const redis = await startRedis(t);
  const service = await readyService(t, { REDIS_URL: redis.url });
  const { logIn, signUp, refresh, verify, ask } = visitor(service.url, '203.0.113.72');
  const pair = await signUp();
  await redis.ask('SETRANGE', 'big', 20_000_000, 'x');
  await redis.ask('CONFIG', 'SET', 'maxmemory', Math.round(Number(await redis.info('used_memory')) / 0.95));
  site.scrape('crammed', service);
  await site.fire('crammed', 'LatchkeyRedisNearlyFull');
  t.match(await logIn('unknown'), { status: 503 });
  const refreshed = await refresh(pair.refresh_token);
  const { access_token: access } = (await refreshed.json()) as Pair;
  t.equal(await verify(access), 200);
  t.match(await ask('DELETE', '/api/auth', access), { status: 200 });
}

/** The certificate of its Redis is good for two days more. */
export async function expiringCertificate(t: Test, site: ObservedSite): Promise<void> {
  const { url, ca } = await startTlsRedis(t);
  const service = await readyService(t, { ...(await ownStores(t)), REDIS_URL: url, REDIS_CA: ca });
  site.scrape('expiring', service);
  await site.fire('expiring', 'LatchkeyCertificateExpires');
}

/** Nobody has purged for four days, and FACTOR_KEYS has lost a key. */
export async function neglected(t: Test, site: ObservedSite): Promise<void> {
  const stores = await ownStores(t);
  const before = await readyService(t, stores);
  const { user } = await visitor(before.url, '203.0.113.73').signUp();
  await before.stop();
  await sql(
    stores.DATABASE_URL ?? '',
    `WITH purged AS (INSERT INTO installation VALUES ('last_purge', '0', now() - interval '4 days'))
     INSERT INTO factors (user_id, type, name, created_at, confirmed_at, key_id, secret)
     VALUES (${user.id}, 'totp', 'phone', now(), now(), 'lost', '')`,
  );
  site.scrape('neglected', await readyService(t, stores));
  await site.fire('neglected', 'LatchkeyPurgeOverdue', 'LatchkeyFactorKeysMissing');
}

/** Its Redis was never reachable. */
export async function unreadyReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await startService(t, { ...(await ownStores(t)), REDIS_URL: 'redis://127.0.0.1:1' });
  site.scrape('unready', service);
  await site.fire('unready', 'LatchkeyReplicaNotReady', 'LatchkeyNoneReady');
  // No replica that serves has lost a store.
  await site.calm('unready', 'LatchkeyStoreDown', 'LatchkeyBackgroundStuck');
}

/** Its clock is 20 minutes ahead. */
export async function skewedReplica(t: Test, site: ObservedSite): Promise<void> {
  const service = await startService(t, { ...(await ownStores(t)), ...clockAhead(1200) });
  site.scrape('skewed', service);
  await site.fire('skewed', 'LatchkeyClockSkew', 'LatchkeyReplicaNotReady');
  await site.calm('skewed', 'LatchkeyStoreDown');
}

/** Its audit file is replaced by a folder. */
export async function trailLost(t: Test, site: ObservedSite): Promise<void> {
  const file = join(testFolder(t), 'audit.jsonl');
  const service = await readyService(t, { ...(await ownStores(t)), AUDIT_LOG: `file:${file}` });
  site.scrape('trail', service);
  rmSync(file);
  mkdirSync(file);
  const stopping = new AbortController();
  const { signUp } = visitor(service.url, '203.0.113.71');
  // A counter has to rise between two scrapes.
  const failures = (async () => {
    while (!stopping.signal.aborted) {
      await signUp();
      await sleep(500);
    }
  })();
  await site.fire('trail', 'LatchkeyAuditLost');
  stopping.abort();
  await failures;
}

/** What reads its standard output has ended. */
export async function logLost(t: Test, site: ObservedSite): Promise<void> {
  const service = await readyService(t, await ownStores(t));
  site.scrape('unread', service);
  service.process.stdout?.destroy();
  const stopping = new AbortController();
  // A counter has to rise between two scrapes.
  const lines = (async () => {
    while (!stopping.signal.aborted) {
      await (await fetch(`${service.url}/nowhere`)).body?.cancel();
      await sleep(500);
    }
  })();
  await site.fire('unread', 'LatchkeyLogLost');
  stopping.abort();
  await lines;
}
