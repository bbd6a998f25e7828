import pg from 'pg';
import { anAccount, claimsOf } from '../../support/client.ts';
import { aRegisteredService, withRegistry } from '../../support/registered-service.ts';
import type { ObservedReplica, ObservedSite } from './observed-site.ts';
import { USUAL } from './observed-site.ts';
import { expect, pairFrom } from './ordinary-day.ts';
import { times, visitor } from './visitors.ts';

/** The database refuses a row for a reason that the code does not know: an unforeseen fault. */
export async function unknownConstraint(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, logIn } = visitor(url, '203.0.113.60');
  const account = anAccount();
  await signUp(account);
  await site.postgres.ask('ALTER TABLE tokens ADD CONSTRAINT unknown CHECK (id < 0) NOT VALID');
  expect(500, (await logIn(account.username)).status);
  await site.postgres.ask('ALTER TABLE tokens DROP CONSTRAINT unknown');
  expect(200, (await logIn(account.username)).status);
  await site.fire(USUAL, 'LatchkeyInternalErrors');
}

/** A user has waited for a mail for 11 minutes, and the mailer is away. */
export async function absentMailer(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp } = visitor(url, '203.0.113.64');
  const { user } = await signUp();
  const database = site.postgres.url();
  await aRegisteredService(database, 'mailer', ['mails']);
  await site.postgres.ask(
    `INSERT INTO wanted_mails (user_id, kind, wanted_at)
     VALUES (${user.id}, 'password_reset', now() - interval '11 minutes')`,
  );
  await site.fire(USUAL, 'LatchkeyMailsWaiting');
  // An installation without a mailer waits for none.
  await withRegistry(database, (registry) => registry.remove('mailer'));
  await site.calm(USUAL, 'LatchkeyMailsWaiting');
  await site.postgres.ask('DELETE FROM wanted_mails');
}

/** A session whose latest pair was issued two minutes in the future, as if the clock has gone back since. */
export async function wrongClock(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, refresh } = visitor(url, '203.0.113.61');
  const pair = await signUp();
  await pairFrom(refresh(pair.refresh_token));
  const { sub, sid } = claimsOf(pair.access_token);
  const future = String((Date.now() + 120_000) * 1000);
  await site.redis.ask(
    'HSET',
    `latchkey:{${String(sub)}}:t:${String(sid)}`,
    'latest',
    future,
    'first',
    future,
  );
  expect(503, (await refresh(pair.refresh_token)).status);
  await site.fire(USUAL, 'LatchkeyClockWrong');
}

/** A connection holds a lock that every login needs. */
export async function lockedTable(site: ObservedSite, { url }: ObservedReplica): Promise<void> {
  const { signUp, ask } = visitor(url, '203.0.113.62');
  const { access_token: token } = await signUp();
  const holder = new pg.Client(site.postgres.url());
  await holder.connect();
  try {
    await holder.query('BEGIN');
    await holder.query('LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE');
    const waiting = Promise.all(Array.from({ length: 300 }, () => ask('GET', '/api/user', token)));
    await site.fire(USUAL, 'LatchkeyPoolExhausted');
    // The server answers, though queries wait for the lock: the alert for a store outage must stay silent.
    await site.calm(USUAL, 'LatchkeyStoreDown');
    if (site.seen.has('LatchkeyStoreDown')) throw new Error('a full pool looks like a store outage');
    await holder.query('ROLLBACK');
    await waiting;
  } finally {
    await holder.end();
  }
}

/** Each round trip to Redis takes 150 ms. */
export async function slowRedis(site: ObservedSite, { url, redis }: ObservedReplica): Promise<void> {
  const { signUp, verify, refresh } = visitor(url, '203.0.113.63');
  const pairs = await times(60, () => signUp());
  redis.set(75);
  for (const status of await times(300, (i) => verify(pairs[i % 60]?.access_token ?? '')))
    expect(200, status);
  for (const { status } of await times(60, (i) => refresh(pairs[i]?.refresh_token ?? '')))
    expect(200, status);
  await site.fire(USUAL, 'LatchkeyRedisSlow', 'LatchkeyLatencyBudgetFast', 'LatchkeyLatencyBudgetSlow');
  redis.set('pass');
}
