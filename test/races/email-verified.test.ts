import { Redis } from 'ioredis';
import { test } from 'tap';
import { makeFinishUserChange } from '../../src/domain/users/finish-user-change.ts';
import { makeTokenKeys } from '../../src/infra/redis/token-states.ts';
import { aManager } from '../support/accounts.ts';
import { buildTestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import { anAccount, call, createLongLived, logIn, pairOf, refresh, signUp } from '../support/client.ts';
import { claimOfAddress, saidOfAddress } from '../support/email-verified.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { aFeed } from '../support/feed.ts';
import { verifyEmail } from '../support/mails.ts';
import { refused } from '../support/problem.ts';
import { deleteKeys, redisMissing, testRedis } from '../support/redis.ts';
import { aVerification } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import { raceWorld } from './world.ts';

const skip = { skip: redisMissing };

for (const isEmptied of [false, true]) {
  const title = isEmptied ? 'with Redis emptied' : 'with Redis intact';
  test(`a change of the address against a rebuild, ${title}`, skip, async (t) => {
    const world = await raceWorld(t);
    const { url, key, generation, users, tokenStates } = world;
    const finish = makeFinishUserChange({ tokenStates, feed: aFeed() });
    // A trigger raises the version.
    const change = async (isVerified: boolean) => {
      await sql(url, `UPDATE users SET email_verified_at = ${isVerified ? 'now()' : 'NULL'} WHERE id = $1`, [
        key.userId,
      ]);
      const account = await users.findOwn(key.userId);
      if (!account) throw new Error('no account');
      await finish(account.user);
    };
    for (const isVerified of [true, false, true]) {
      await change(!isVerified);
      const { find, readThrough } = await world.rebuilding();
      const rebuilding = readThrough.checkAccess(key, generation);
      rebuilding.catch(() => undefined);
      await find.reached;
      await change(isVerified);
      if (isEmptied) await world.forgetEverything();
      find.go();
      t.match(await rebuilding, { outcome: 'good', user: { emailVerified: isVerified } });
      t.match(await tokenStates.checkAccess(key, generation), { user: { emailVerified: isVerified } });
    }
  });
}

test('an emptied Redis, and what 1.0.0 writes, take no claim away for good and leave none', skip, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = new Redis(url);
  t.teardown(() => {
    redis.disconnect();
  });
  const target = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
  const { databaseUrl } = target;
  const manager = await aManager(databaseUrl, target);
  const account = anAccount();
  const pair = await signUp(target, account);
  const { id, username, name } = pair.user;
  const { longlived_token: llt } = await createLongLived(target, pair.access_token);
  const said = (token: string) => saidOfAddress(target, manager.client, token);
  const both = async () => {
    const { access_token, refresh_token } = await logIn(target, username);
    const next = pairOf(await refresh(target, refresh_token));
    return [claimOfAddress(access_token), claimOfAddress(next.access_token), await said(llt)];
  };
  await manager(`PATCH /api/users/${id}`, { email: account.email, email_verified: true });
  t.strictSame(await both(), [true, true, true]);
  await deleteKeys(redis, prefix);
  t.equal(await said(llt), true, 'a rebuild');
  await deleteKeys(redis, prefix);
  t.strictSame(await both(), [true, true, true]);

  // A change by 1.0.0 and then its answer to Redis. The database raises the version.
  const user = makeTokenKeys(prefix).user(id);
  const byPrevious = async (change: string) => {
    const [row] = await sql<{ version: number }>(
      databaseUrl,
      `UPDATE users SET ${change} WHERE id = $1 RETURNING version`,
      [id],
    );
    const fields = { username, name, created: '1', disabled: '0', roles: '', version: String(row?.version) };
    await redis.hset(user, fields);
  };
  await byPrevious("email = 'new@example.com', email_verified_at = NULL");
  t.equal(await said(llt), false, 'at once');
  t.strictSame(await both(), [false, false, false]);
  await byPrevious('email_verified_at = now()');
  target.composition.start();
  await until(() => said(llt));
  await byPrevious('roles = roles');
  t.equal(await said(llt), true, 'what 1.0.0 renews stays');
});

test('if Redis fails before the commit of a proof or after it, a repeat succeeds', skip, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = await faultProxy(t, url);
  const target = await buildTestApp(t, {
    env: { REDIS_URL: redis.url, REDIS_PREFIX: prefix, REDIS_TIMEOUT: '500', EMAIL_VERIFICATION: 'true' },
  });
  const { databaseUrl } = target;
  const { client: service } = await aManager(databaseUrl, target);
  const { user, access_token: token } = await signUp(target);
  const mailed = await aVerification(databaseUrl, user.id);
  const isOnRecord = async () => {
    const [row] = await sql<{ is: boolean }>(
      databaseUrl,
      'SELECT email_verified_at IS NOT NULL AS is FROM users WHERE id = $1',
      [user.id],
    );
    return row?.is;
  };
  redis.set('refuse');
  refused(t, await verifyEmail(target, mailed), 503, 'unavailable');
  t.equal(await isOnRecord(), false, 'the token is not used up');
  redis.set('pass');
  await until(async () => (await call(target, 'GET /api/user', { token })).statusCode === 200);
  t.equal(await saidOfAddress(target, service, token), false);

  const [locks, watch] = [await aClient(t, databaseUrl), await aClient(t, databaseUrl)];
  await locks.query('BEGIN');
  await locks.query('SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE', [user.id]);
  const proof = begun(() => verifyEmail(target, mailed));
  await proof.begin(watch);
  redis.set('refuse');
  await locks.query('COMMIT');
  refused(t, await proof.result(), 503, 'unavailable');
  t.equal(await isOnRecord(), true);
  redis.set('pass');
  await until(async () => (await call(target, 'GET /api/user', { token })).statusCode === 200);
  t.equal((await verifyEmail(target, mailed)).statusCode, 200);
  t.equal(await saidOfAddress(target, service, token), true);
  t.equal(target.audit().filter(({ event }) => event === 'email.verified').length, 1);
});
