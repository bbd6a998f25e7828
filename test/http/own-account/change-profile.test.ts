import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { aClient, begun } from '../../support/begun.ts';
import {
  anAccount,
  call,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { ALLOWED, LIMITS } from '../../support/guessing.ts';
import { refused } from '../../support/problem.ts';
import { deleteKeys, redisMissing, testRedis } from '../../support/redis.ts';
import { aReset, redeem } from '../../support/resets.ts';
import { aRegisteredService, introspect } from '../../support/registered-service.ts';
import { workDone } from '../../support/spy.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';
import { Redis } from 'ioredis';

const ROUTE = 'PATCH /api/user';
const PASSWORD = 'difference engine';

function patch(target: TestApp, token: string | undefined, payload: object) {
  return call(target, ROUTE, { token, payload });
}

const attempt = (target: TestApp, username: string, password = PASSWORD) =>
  call(target, 'POST /api/auth', { payload: { username, password } });

onAStore('changing the profile', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;

  await t.test('changes the name without a password', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const response = await patch(target, token, { name: '  Countess Lovelace ' });
    t.equal(response.statusCode, 200);
    t.strictSame(response.json(), { ...user, name: 'Countess Lovelace' });
    t.equal(response.headers['cache-control'], 'no-store');
    t.match((await call(target, 'GET /api/user', { token })).json(), { name: 'Countess Lovelace' });

    const events = () => target.audit().filter(({ event }) => event === 'user.changed').length;
    const before = events();
    t.strictSame((await patch(target, token, { name: 'Countess Lovelace' })).json(), response.json());
    t.equal(events(), before, 'a repeat changes nothing');
  });

  await t.test('changes the language without a password, and null removes it', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const localeNow = async () =>
      (await call(target, 'GET /api/user', { token })).json<{ locale: string | null }>().locale;
    const response = await patch(target, token, { locale: 'PT-br' });
    t.strictSame([response.statusCode, response.json()], [200, user]);
    t.equal(await localeNow(), 'pt-BR');
    t.match(
      target.audit().findLast(({ event }) => event === 'user.changed'),
      { details: { fields: 'locale' } },
    );
    for (const locale of ['x'.repeat(36), 'en_US', '*', '', 5, ['de']])
      refused(t, await patch(target, token, { locale }), 400, 'validation_failed', ['/locale']);
    t.equal(await localeNow(), 'pt-BR');
    t.equal((await patch(target, token, { locale: null })).statusCode, 200);
    t.equal(await localeNow(), null);
    const { longlived_token: llt } = await createLongLived(target, token);
    refused(t, await patch(target, llt, { locale: 'de' }), 403, 'token_not_allowed');
  });

  await t.test('changes username and address with the password, and every answer has them', async (t) => {
    const account = anAccount();
    const pair = await signUp(target, account);
    const other = await logIn(target, account.username);
    const { longlived_token: llt } = await createLongLived(target, pair.access_token);
    const service = await aRegisteredService(databaseUrl, account.username);
    for (const token of [other.access_token, llt]) await verify(target, token);
    const next = anAccount();
    const body = { username: next.username.toUpperCase(), email: ` ${next.email.toUpperCase()} ` };
    const response = await patch(target, pair.access_token, { ...body, current_password: PASSWORD });
    t.equal(response.statusCode, 200, response.body);
    t.strictSame(response.json(), { ...pair.user, username: next.username });
    t.notMatch(response.body, next.email, 'the address is write-only');

    for (const token of [pair.access_token, other.access_token, llt]) {
      t.equal((await verify(target, token)).headers['x-auth-username'], next.username);
      t.match((await introspect(target, service, token)).json(), { active: true, username: next.username });
    }
    t.match(pairOf(await refresh(target, other.refresh_token)).user, { username: next.username });
    for (const name of [next.username, next.email]) await logIn(target, name);
    for (const name of [account.username, account.email])
      refused(t, await attempt(target, name), 401, 'invalid_credentials');
    t.notMatch(target.log() + JSON.stringify(target.audit()), next.email);

    // The old names are free for others.
    const heir = await signUp(target, account);
    t.equal((await verify(target, heir.access_token)).headers['x-auth-username'], account.username);
    t.equal((await verify(target, llt)).headers['x-auth-username'], next.username);
  });

  await t.test('username and address need the current password', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    for (const body of [{ username: 'x' }, { email: 'x@example.com' }, { name: 'X', email: 'x@example.com' }])
      refused(t, await patch(target, token, body), 400, 'validation_failed', ['/current_password']);
    const wrong = { ...anAccount(), password: undefined, current_password: 'a guess' };
    refused(t, await patch(target, token, wrong), 401, 'invalid_credentials');
    refused(
      t,
      await patch(target, token, { name: 'X', current_password: 'a guess' }),
      401,
      'invalid_credentials',
    );
    t.match((await call(target, 'GET /api/user', { token })).json(), {
      username: account.username,
      name: account.name,
    });
    t.equal((await attempt(target, account.email)).statusCode, 200);
  });

  await t.test('the rules for names are those of signup', async (t) => {
    const { access_token: token } = await signUp(target);
    const names = { username: 'two words', email: 'ada', name: ' \u3000' };
    const response = await patch(target, token, { ...names, current_password: PASSWORD });
    refused(t, response, 400, 'validation_failed', ['/email', '/name', '/username']);
  });

  await t.test('names of others are taken, also a lookalike; one’s own are not', async (t) => {
    const [mine, taken] = [anAccount({ username: `pay-${Date.now() % 1e6}` }), anAccount()];
    await signUp(target, taken);
    const { access_token: token } = await signUp(target, mine);
    const { access_token: other } = await signUp(target);
    const change = (body: object, by = token) => patch(target, by, { ...body, current_password: PASSWORD });
    refused(t, await change({ username: taken.username.toUpperCase() }), 400, 'username_taken');
    refused(t, await change({ email: taken.email.toUpperCase() }), 400, 'email_taken');
    refused(t, await change({ username: taken.username, email: taken.email }), 400, 'username_taken');
    const alike = mine.username.replace('pay', 'рау');
    refused(t, await change({ username: alike }, other), 400, 'username_taken');
    t.equal((await change({ username: mine.username, email: mine.email })).statusCode, 200);
    t.equal((await change({ username: alike })).statusCode, 200, 'looks like one’s own');
    const payload = anAccount({ username: mine.username });
    refused(t, await call(target, 'POST /api/auth/signup', { payload }), 400, 'username_taken');
  });

  await t.test('of twenty accounts that want one name, one gets it, and so for an address', async (t) => {
    const wanted = anAccount();
    for (const [body, code] of [
      [{ username: wanted.username }, 'username_taken'],
      [{ email: wanted.email }, 'email_taken'],
    ] as const) {
      const pairs = await Promise.all(Array.from({ length: 10 }, () => signUp(target)));
      const answers = await Promise.all([
        ...pairs.map(({ access_token }) =>
          patch(target, access_token, { ...body, current_password: PASSWORD }),
        ),
        ...pairs.map(() => call(target, 'POST /api/auth/signup', { payload: { ...anAccount(), ...body } })),
      ]);
      t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1);
      for (const answer of answers) if (answer.statusCode !== 200) refused(t, answer, 400, code);
    }
  });

  await t.test('a new address voids a reset token; other changes leave it good', async (t) => {
    const account = anAccount();
    const { access_token: token, user } = await signUp(target, account);
    const reset = await aReset(databaseUrl, user.id);
    const change = (body: object) => patch(target, token, { ...body, current_password: PASSWORD });
    const same = { name: 'X', username: anAccount().username, email: account.email.toUpperCase() };
    t.equal((await change(same)).statusCode, 200);
    const left = () => sql(databaseUrl, `SELECT 1 FROM password_resets WHERE user_id = ${user.id}`);
    t.equal((await left()).length, 1);
    t.equal((await change({ email: anAccount().email })).statusCode, 200);
    refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
  });

  await t.test('a change that races with one of the password needs the new one', async (t) => {
    const account = anAccount();
    const { access_token: token, user } = await signUp(target, account);
    const locks = await aClient(t, databaseUrl);
    const watch = await aClient(t, databaseUrl);
    const renaming = begun(() =>
      patch(target, token, { username: anAccount().username, current_password: PASSWORD }),
    );
    await locks.query('BEGIN');
    await locks.query(`UPDATE users SET password_version = password_version + 1 WHERE id = ${user.id}`);
    await renaming.begin(watch);
    await locks.query('COMMIT');
    refused(t, await renaming.result(), 401, 'invalid_credentials');
    t.equal((await attempt(target, account.username)).statusCode, 200);
  });
});

onAStore('guesses at the password by changes of the profile', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...LIMITS, RATE_LIMIT_LOGIN: '15/60' } });
  const { access_token: token } = await signUp(target);
  const guess = { username: 'x', current_password: 'a guess' };
  const steps = await workDone(t, async () => {
    for (let i = 0; i < ALLOWED; i++)
      refused(t, await patch(target, token, guess), 401, 'invalid_credentials');
    for (let i = 0; i < 6; i++)
      refused(t, await patch(target, token, { ...guess, current_password: PASSWORD }), 429, 'rate_limited');
  });
  t.equal(steps.filter((step) => step.startsWith('verify a hash')).length, ALLOWED);
  refused(t, await patch(target, token, { name: 'X' }), 429, 'rate_limited');
  refused(t, await attempt(target, 'unknown'), 429, 'rate_limited');
});

test(
  'new names reach a Redis that lost them, and one that never got them',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const target = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix } });
    const account = anAccount();
    const { access_token: token, user } = await signUp(target, account);
    const name = async () => (await verify(target, token)).headers['x-auth-username'];
    const redis = new Redis(url);
    t.teardown(() => {
      redis.disconnect();
    });
    const [key = ''] = await redis.keys(`${prefix}*{${user.id}}:u`);
    const next = anAccount().username;
    t.equal((await patch(target, token, { username: next, current_password: PASSWORD })).statusCode, 200);
    t.equal(await name(), next);

    // An older Redis comes back.
    await redis.hset(key, 'username', account.username, 'version', '0');
    t.equal(await name(), account.username);
    target.composition.start();
    await until(async () => (await name()) === next);
    await deleteKeys(redis, prefix);
    await until(async () => (await name()) === next);
  },
);
