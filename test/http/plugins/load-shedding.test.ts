import { test, type Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { Share, Turn } from '../../../src/domain/passwords/bulkhead.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, createLongLived, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { until } from '../../support/until.ts';

const TURN: Turn = ['192.0.2.0/24', '192.0.2.1'];
const LOGIN = { username: 'unknown', password: 'a wrong one' };

/** A service whose load the test sets. */
async function underLoad(t: Test, { maxLag = 100, env = {} }: { maxLag?: number; env?: Environment } = {}) {
  const load = { lag: 0, refusal: null as AuthError | null, asked: [] as string[], isStoreFull: false };
  const hashRefusal = (share: Share, turn: Turn) => {
    load.asked.push([share, ...turn].join(' '));
    return load.refusal;
  };
  const isStoreFull = () => load.isStoreFull;
  const loadShedding = { maxLag, lag: () => load.lag, hashRefusal, isStoreFull };
  const target = await buildTestApp(t, { env, override: (app) => ({ ...app, loadShedding }) });
  const logIn = () => call(target, 'POST /api/auth', { payload: LOGIN });
  const signUpNow = () => call(target, 'POST /api/auth/signup', { payload: anAccount() });
  return { target, load, logIn, signUpNow };
}

/** Checks that all other routes still work. */
async function othersGoOn(t: Test, target: TestApp, token: { access: string; refresh: string }) {
  t.ok((await createLongLived(target, token.access)).id, 'create LLT');
  await sessionsGoOn(t, target, token);
}

async function sessionsGoOn(t: Test, target: TestApp, token: { access: string; refresh: string }) {
  t.equal((await verify(target, token.access)).statusCode, 200, 'verify');
  t.equal((await call(target, 'GET /api/user', { token: token.access })).statusCode, 200, 'profile');
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

test('a nearly full store refuses what adds to it, and serves sessions', async (t) => {
  const { target, load, logIn, signUpNow } = await underLoad(t);
  const pair = await signUp(target);
  const createNow = (token?: string) =>
    call(target, 'POST /api/auth/llt', { ...(token && { token }), payload: { device: 'Kitchen' } });
  load.isStoreFull = true;
  const done = await workDone(t, async () => {
    const token = pair.access_token;
    const others = [
      'PATCH /api/user',
      'POST /api/user/password',
      'POST /api/user/email-verification',
      'POST /api/auth/password-reset',
      'POST /api/auth/password-reset-request',
      'POST /api/auth/email-verification',
    ];
    for (const response of [
      await logIn(),
      await signUpNow(),
      await createNow(token),
      ...(await Promise.all(others.map((line) => call(target, line, { token, payload: {} })))),
    ]) {
      refused(t, response, 503, 'overloaded');
      t.equal(response.headers['retry-after'], '5');
    }
    refused(t, await createNow(), 401, 'token_missing');
  });
  t.notMatch(done.join(), /hash|users/);
  await sessionsGoOn(t, target, { access: pair.access_token, refresh: pair.refresh_token });
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

test('the queue is checked for the route’s share and the caller’s turn', async (t) => {
  const { target, load } = await underLoad(t);
  load.refusal = new AuthError('overloaded', { retryAfter: 1 });
  const routes = { '/api/auth': 'login', '/api/auth/signup': 'signup', '/api/auth/password-reset': 'known' };
  for (const url of Object.keys(routes))
    for (const remoteAddress of ['::ffff:192.0.2.1', '2001:db8::1', '10.1.1.1'])
      await target.app.inject({ method: 'POST', url, remoteAddress, payload: {} });
  const turns = ['192.0.2.0/24 192.0.2.1', '2001:db8:0::/48 2001:db8:0:0::/64', '10.1.1.1 10.1.1.1'];
  t.strictSame(
    load.asked,
    Object.values(routes).flatMap((share) => turns.map((turn) => `${share} ${turn}`)),
  );
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
  composition.start();
  const { lag, hashRefusal } = composition.app.loadShedding;
  t.equal(hashRefusal('signup', TURN), null);
  const answer = app.inject({ method: 'POST', url: '/api/auth', payload: LOGIN });
  const statuses = answer.then(({ statusCode }) => t.equal(statusCode, 401));
  await until(() => hashRefusal('signup', TURN) !== null);
  const other = await app.inject({ method: 'POST', url: '/api/auth/signup', payload: anAccount() });
  refused(t, other, 503, 'overloaded');
  await statuses;
  t.equal(hashRefusal('signup', TURN), null, 'and there is room again');

  // Blocks the event loop, so that its delay is high on every machine.
  await until(() => {
    const end = performance.now() + 150;
    while (performance.now() < end);
    return lag() > 20;
  });
});
