import { test, type Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, createLongLived, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { until } from '../../support/until.ts';

const LOGIN = { username: 'unknown', password: 'a wrong one' };

/** A service whose load the test sets. */
async function underLoad(t: Test, { maxLag = 100, env = {} }: { maxLag?: number; env?: Environment } = {}) {
  const load = { lag: 0, refusal: null as AuthError | null, asked: [] as string[] };
  const hashRefusal = (address: string) => {
    load.asked.push(address);
    return load.refusal;
  };
  const loadShedding = { maxLag, lag: () => load.lag, hashRefusal };
  const target = await buildTestApp(t, { env, override: (app) => ({ ...app, loadShedding }) });
  const logIn = () => call(target, 'POST /api/auth', { payload: LOGIN });
  const signUpNow = () => call(target, 'POST /api/auth/signup', { payload: anAccount() });
  return { target, load, logIn, signUpNow };
}

/** Checks that all other routes still work. */
async function othersGoOn(t: Test, target: TestApp, token: { access: string; refresh: string }) {
  t.equal((await verify(target, token.access)).statusCode, 200, 'verify');
  t.equal((await call(target, 'GET /api/user', { token: token.access })).statusCode, 200, 'profile');
  t.ok((await createLongLived(target, token.access)).id, 'create LLT');
  const { access_token: access } = pairOf(await refresh(target, token.refresh));
  t.equal((await call(target, 'DELETE /api/auth', { token: access })).statusCode, 200, 'logout');
}

test('a lagging process refuses logins and signups, and serves the rest', async (t) => {
  const { target, load, logIn, signUpNow } = await underLoad(t);
  const pair = await signUp(target);
  load.lag = 100;
  refused(t, await logIn(), 401, 'invalid_credentials');
  load.lag = 100.1;
  const done = await workDone(t, async () => {
    for (const response of [await logIn(), await signUpNow()]) {
      refused(t, response, 503, 'overloaded');
      t.equal(response.headers['retry-after'], '2');
    }
  });
  t.strictSame(
    done.filter((step) => /hash|users/.test(step)),
    [],
    'a refused request costs no hash and no query',
  );
  await othersGoOn(t, target, { access: pair.access_token, refresh: pair.refresh_token });
});

test('SHED_LAG=0 refuses nothing', async (t) => {
  const { load, logIn } = await underLoad(t, { maxLag: 0 });
  load.lag = 60_000;
  refused(t, await logIn(), 401, 'invalid_credentials');
});

test('a full queue refuses logins and signups before any look-up', async (t) => {
  const { target, load, logIn, signUpNow } = await underLoad(t);
  const pair = await signUp(target);
  load.refusal = new AuthError('overloaded', { retryAfter: 7 });
  const done = await workDone(t, async () => {
    for (const response of [await logIn(), await signUpNow()]) {
      refused(t, response, 503, 'overloaded');
      t.equal(response.headers['retry-after'], '7');
    }
  });
  t.strictSame(
    done.filter((step) => /hash|users/.test(step)),
    [],
  );
  await othersGoOn(t, target, { access: pair.access_token, refresh: pair.refresh_token });
});

test('the queue is checked for the caller’s address', async (t) => {
  const { target, load } = await underLoad(t);
  load.refusal = new AuthError('overloaded', { retryAfter: 1 });
  for (const url of ['/api/auth', '/api/auth/signup'])
    for (const remoteAddress of ['192.0.2.1', '::ffff:192.0.2.1', '2001:db8::1', '2001:db8::2'])
      await target.app.inject({ method: 'POST', url, remoteAddress, payload: {} });
  t.strictSame(load.asked.slice(0, 4), ['192.0.2.1', '192.0.2.1', '2001:db8:0:0::/64', '2001:db8:0:0::/64']);
  t.strictSame(load.asked.slice(4), load.asked.slice(0, 4));
});

test('a request refused for load still counts against the limit', async (t) => {
  const { load, logIn } = await underLoad(t, { env: { RATE_LIMIT_LOGIN: '2/600' } });
  load.refusal = new AuthError('overloaded', { retryAfter: 1 });
  refused(t, await logIn(), 503, 'overloaded');
  refused(t, await logIn(), 503, 'overloaded');
  refused(t, await logIn(), 429, 'rate_limited');
});

test('the service measures lag and queue', async (t) => {
  // 30 ms a hash, one at a time, and no request may wait in the queue.
  const env = { SCRYPT_LOG_N: '14', HASH_CONCURRENCY: '1', HASH_QUEUE: '0' };
  const { app, composition } = await buildTestApp(t, { env });
  const { lag, hashRefusal } = composition.app.loadShedding;
  t.equal(hashRefusal('192.0.2.1'), null);
  const answer = app.inject({ method: 'POST', url: '/api/auth', payload: LOGIN });
  const statuses = answer.then(({ statusCode }) => t.equal(statusCode, 401));
  await until(() => hashRefusal('192.0.2.1') !== null);
  const other = await app.inject({ method: 'POST', url: '/api/auth/signup', payload: anAccount() });
  refused(t, other, 503, 'overloaded');
  await statuses;
  t.equal(hashRefusal('192.0.2.1'), null, 'and there is room again');

  // Blocks the event loop, so that its delay is high on every machine.
  await until(() => {
    const end = performance.now() + 150;
    while (performance.now() < end);
    return lag() > 20;
  });
});
