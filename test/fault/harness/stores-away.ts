import { setTimeout as sleep } from 'node:timers/promises';
import { anAccount } from '../../support/client.ts';
import { latchkey } from '../../support/latchkey.ts';
import { aFeedReader } from './feed-trouble.ts';
import type { ObservedReplica, ObservedSite } from './observed-site.ts';
import { RETRY_WINDOW, USUAL } from './observed-site.ts';
import { expect, pairFrom } from './ordinary-day.ts';
import { visitor } from './visitors.ts';

const WHILE_AWAY = [
  'LatchkeyStoreDown',
  'LatchkeyBackgroundStuck',
  'LatchkeyWriteBehindLate',
  'LatchkeyRevocationsStuck',
  'LatchkeyReuseQueued',
  'LatchkeyFeedLags',
];

/**
 * One replica loses Redis, the other PostgreSQL, so neither can finish the other's work.
 * @returns a function that waits for the alerts, restores the stores, and waits until the alerts stop.
 */
export async function storesAway(
  site: ObservedSite,
  withoutRedis: ObservedReplica,
  withoutDatabase: ObservedReplica,
): Promise<() => Promise<void>> {
  const stranded = visitor(withoutRedis.url, '203.0.113.80');
  const account = anAccount();
  const { access_token: access, refresh_token: refresh } = await stranded.signUp(account);
  const owner = visitor(withoutDatabase.url, '203.0.113.81');
  const stolen = await owner.signUp();
  const { access_token: next } = await pairFrom(owner.refresh(stolen.refresh_token));
  expect(200, await owner.verify(next));
  const inUse = await owner.signUp();
  await sleep((RETRY_WINDOW + 1) * 1000);

  const reader = await aFeedReader(site, withoutRedis);

  withoutDatabase.database.set('refuse');
  await pairFrom(owner.refresh(inUse.refresh_token));
  expect(401, (await visitor(withoutDatabase.url, '198.51.100.4').refresh(stolen.refresh_token)).status);

  withoutRedis.redis.set('refuse');
  // Revoked in the record, but no replica can set the tombstones.
  const { code } = await latchkey(['user', 'disable', account.username], {
    DATABASE_URL: site.postgres.url(),
  });
  expect(1, code);

  const stopping = new AbortController();
  // A few at a time: Prometheus sees no increase in the first sample of a counter.
  const users = (async () => {
    while (!stopping.signal.aborted) {
      expect(503, await stranded.verify(access));
      expect(503, (await stranded.refresh(refresh)).status);
      expect(503, (await owner.logIn(account.username)).status);
      await sleep(200);
    }
  })();
  return async () => {
    await site.fire(
      USUAL,
      ...WHILE_AWAY,
      'LatchkeyRedisErrors',
      'LatchkeyPostgresErrors',
      'LatchkeyErrorBudgetFast',
      'LatchkeyErrorBudgetSlow',
    );
    stopping.abort();
    await users;
    withoutDatabase.database.set('pass');
    withoutRedis.redis.set('pass');
    await site.calm(USUAL, ...WHILE_AWAY);
    await reader.close();
    expect(401, await stranded.verify(access));
  };
}
