import { Redis } from 'ioredis';
import { test, type Test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { redisMissing, testRedis } from '../../support/redis.ts';
import { onAStore } from '../../support/stores.ts';

const PAYLOAD = { username: 'unknown', password: 'x' };

onAStore('limits by address', async (t, env) => {
  const limited = { ...env, RATE_LIMIT_LOGIN: '3/600', TRUST_PROXY: 'loopback' };
  const target = await buildTestApp(t, { env: limited });
  const from = (address: string, to = target) =>
    call(to, 'POST /api/auth', { payload: PAYLOAD, headers: { 'x-forwarded-for': address } });
  const exhaust = async (t: Test, address: string, to?: TestApp) => {
    for (let i = 0; i < 3; i++) refused(t, await from(address, to), 401, 'invalid_credentials');
    return from(address, to);
  };

  await t.test('count each address separately, and answer Retry-After', async (t) => {
    const response = await exhaust(t, '192.0.2.1');
    refused(t, response, 429, 'rate_limited');
    const wait = Number(response.headers['retry-after']);
    t.ok(wait > 0 && wait <= 600, `${wait}`);
    const leaked = Object.keys(response.headers).filter((name) => name.startsWith('x-ratelimit'));
    t.strictSame(leaked, []);
    refused(t, await from('192.0.2.2'), 401, 'invalid_credentials');
  });

  await t.test('come before validation, and count refused requests', async (t) => {
    const headers = { 'x-forwarded-for': '192.0.2.3' };
    for (let i = 0; i < 3; i++)
      refused(t, await call(target, 'POST /api/auth', { headers }), 400, 'malformed_json');
    refused(t, await call(target, 'POST /api/auth', { headers }), 429, 'rate_limited');
  });

  await t.test('read the client’s address if a proxy appends a port', async (t) => {
    const env = { ...limited, TRUST_PROXY: 'loopback,10.0.0.0/8,2001:db8:99::/48' };
    const behind = await buildTestApp(t, { env });
    for (const proxy of ['10.0.0.1', '10.0.0.2:4711', '[2001:db8:99::1]:443'])
      refused(t, await from(`203.0.113.30:80, ${proxy}`, behind), 401, 'invalid_credentials');
    refused(t, await from('203.0.113.30, 10.0.0.3:1', behind), 429, 'rate_limited');
    refused(t, await from('203.0.113.31, 10.0.0.3:1', behind), 401, 'invalid_credentials');
    // Not trusted: the entries before it may be made up.
    for (let i = 0; i < 3; i++)
      refused(t, await from(`203.0.113.${i}, 198.51.100.9:${i}`, behind), 401, 'invalid_credentials');
    refused(t, await from('203.0.113.99, 198.51.100.9', behind), 429, 'rate_limited');
  });

  await t.test('count login and signup separately', async (t) => {
    const both = await buildTestApp(t, { env: { ...limited, RATE_LIMIT_SIGNUP: '1/600' } });
    const headers = { 'x-forwarded-for': '198.51.100.1' };
    const signup = () => call(both, 'POST /api/auth/signup', { payload: anAccount(), headers });
    const first = await signup();
    t.equal(first.statusCode, 200, first.body);
    refused(t, await signup(), 429, 'rate_limited');
    refused(t, await exhaust(t, '198.51.100.1', both), 429, 'rate_limited');
  });

  await t.test('count signups of a network, without those that its addresses may not make', async (t) => {
    const limits = {
      RATE_LIMIT_SIGNUP: '2/600',
      RATE_LIMIT_SIGNUP_NETWORK: '3/600',
      RATE_LIMIT_ALLOW: '198.18.0.0/15',
    };
    const few = await buildTestApp(t, { env: { ...limited, ...limits } });
    const signup = async (address: string) => {
      const headers = { 'x-forwarded-for': address };
      return call(few, 'POST /api/auth/signup', { payload: anAccount(), headers });
    };
    for (const [first, last] of [
      ['2001:db8:1:1::1', '2001:db8:1:2::'],
      ['203.0.113.1', '203.0.113.'],
    ] as const) {
      const statuses: number[] = [];
      for (const address of [first, first, first, first, `${last}2`, `${last}3`])
        statuses.push((await signup(address)).statusCode);
      t.strictSame(statuses, [200, 200, 429, 429, 200, 429]);
    }
    for (let i = 1; i <= 4; i++) {
      const headers = { 'x-forwarded-for': `203.0.114.10${i}` };
      const empty = await call(few, 'POST /api/auth/signup', { payload: {}, headers });
      t.equal(empty.statusCode, 400, 'it takes none of the accounts of its network');
    }
    const search = await buildTestApp(t, { env: { ...limited, ...limits } });
    const account = anAccount();
    const signUpAs = async (names: object, address: string) => {
      const headers = { 'x-forwarded-for': address };
      return call(search, 'POST /api/auth/signup', { payload: { ...anAccount(), ...names }, headers });
    };
    t.equal((await signUpAs(account, '203.0.113.1')).statusCode, 200);
    const answers = [];
    for (const i of [2, 3, 4])
      answers.push((await signUpAs({ username: account.username }, `203.0.113.${i}`)).statusCode);
    t.strictSame(answers, [400, 400, 429], 'a taken name counts');

    const limited429 = await signup('203.0.113.4');
    refused(t, limited429, 429, 'rate_limited');
    t.ok(Number(limited429.headers['retry-after']) > 0);
    for (const network of ['203.0.114', '198.18.1', '10.1.1'])
      for (let i = 0; i < (network === '203.0.114' ? 3 : 4); i++)
        t.equal((await signup(`${network}.${i}`)).statusCode, 200, `${network}.${i}`);
  });

  await t.test('apply to login and signup only', async (t) => {
    const { access_token: token } = await signUp(target);
    await exhaust(t, '127.0.0.1');
    for (let i = 0; i < 5; i++) t.equal((await verify(target, token)).statusCode, 200);
  });

  await t.test('do not apply to allowed addresses and networks', async (t) => {
    const allow = '203.0.113.7, 198.18.0.0/15, 2001:db8:1::/48';
    const lenient = await buildTestApp(t, { env: { ...limited, RATE_LIMIT_ALLOW: allow } });
    for (const address of ['203.0.113.7', '198.19.1.1', '2001:db8:1:2::3', '::ffff:203.0.113.7']) {
      for (let i = 0; i < 5; i++) refused(t, await from(address, lenient), 401, 'invalid_credentials');
    }
    for (const address of ['203.0.113.8', '2001:db8:2::1']) {
      refused(t, await exhaust(t, address, lenient), 429, 'rate_limited');
    }
  });

  await t.test('go by the peer if no proxy is trusted', async (t) => {
    const settings = { ...limited, TRUST_PROXY: 'false' };
    const distrustful = await buildTestApp(t, { env: settings });
    for (let i = 0; i < 3; i++)
      refused(t, await from(`203.0.113.${i}`, distrustful), 401, 'invalid_credentials');
    refused(t, await from('203.0.113.200', distrustful), 429, 'rate_limited');
  });
});

test('Redis holds no address, only its keyed hash', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const env = { REDIS_URL: url, REDIS_PREFIX: prefix, RATE_LIMIT_LOGIN: '1/600', TRUST_PROXY: 'loopback' };
  const target = await buildTestApp(t, { env });
  for (const address of ['192.0.2.1', '2001:db8:0:1::1'])
    await call(target, 'POST /api/auth', { payload: PAYLOAD, headers: { 'x-forwarded-for': address } });
  const redis = new Redis(url);
  const keys = await redis.keys(`${prefix}*`);
  redis.disconnect();
  t.equal(keys.filter((key) => /limit:.*login:[\w-]{22}$/.test(key)).length, 2);
  t.notMatch(keys.join('\n'), /192\.0\.2|2001:db8/);
});
