import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, call } from '../support/client.ts';
import { refused } from '../support/problem.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

const PASSWORD = 'difference engine';
const ALLOWED = 10;
const LIMITS: Environment = {
  RATE_LIMIT_ACCOUNT: `${ALLOWED}/900`,
  RATE_LIMIT_NETWORK: '5/900',
  TRUST_PROXY: 'loopback',
};

function attempt(target: TestApp, username: string, password: string, headers: Record<string, string>) {
  return call(target, 'POST /api/auth', { payload: { username, password }, headers });
}

onAStore('guessing from one network', async (t, env) => {
  const open = (more: Environment = {}) => buildTestApp(t, { env: { ...env, ...LIMITS, ...more } });
  const target = await open();
  let names = 0;
  /** Failed logins, each with a new name. */
  const guess = (address: string, at = target) =>
    attempt(at, `unknown-${++names}`, 'x', { 'x-forwarded-for': address });
  const exhaustFrom = async (t: Test, addresses: string[], at = target) => {
    for (let i = 0; i < 5; i++)
      refused(t, await guess(addresses[i % addresses.length] ?? '', at), 401, 'invalid_credentials');
  };

  await t.test('failures from one /24 or one /48 are counted together', async (t) => {
    await exhaustFrom(t, ['203.0.113.1', '203.0.113.200:99', '::ffff:203.0.113.7']);
    const limited = await guess('203.0.113.3');
    refused(t, limited, 429, 'rate_limited');
    const wait = Number(limited.headers['retry-after']);
    t.ok(wait > 800 && wait <= 900, `${wait}`);
    refused(t, await guess('203.0.114.1'), 401, 'invalid_credentials');

    await exhaustFrom(t, ['2001:db8:1:2::3', '[2001:db8:1:ffff::1]:9', '2001:db8:1::']);
    refused(t, await guess('2001:db8:1:7::1'), 429, 'rate_limited');
    refused(t, await guess('2001:db8:2::1'), 401, 'invalid_credentials');
  });

  await t.test('right passwords are not counted, and a known device is let through', async (t) => {
    const account = anAccount();
    const headers = { 'x-forwarded-for': '192.0.2.9', 'user-agent': 'Phone/1' };
    await call(target, 'POST /api/auth/signup', { payload: account, headers });
    for (let i = 0; i < 7; i++)
      t.equal((await attempt(target, account.username, PASSWORD, headers)).statusCode, 200);
    await exhaustFrom(t, ['192.0.2.77']);
    refused(t, await guess('192.0.2.9'), 429, 'rate_limited');
    t.equal((await attempt(target, account.username, PASSWORD, headers)).statusCode, 200);
  });

  await t.test(
    'a try that the network limit refuses takes no slot of the name, and vice versa',
    async (t) => {
      await exhaustFrom(t, ['198.51.100.1']);
      for (let i = 0; i < ALLOWED + 1; i++)
        refused(
          t,
          await attempt(target, 'unknown-held', 'x', { 'x-forwarded-for': '198.51.100.2' }),
          429,
          'rate_limited',
        );
      for (let i = 0; i < ALLOWED; i++) {
        const headers = { 'x-forwarded-for': `198.18.${i}.7` };
        refused(t, await attempt(target, 'unknown-held', 'x', headers), 401, 'invalid_credentials');
      }
      for (let i = 0; i < 6; i++)
        refused(
          t,
          await attempt(target, 'unknown-held', 'x', { 'x-forwarded-for': '198.51.99.2' }),
          429,
          'rate_limited',
        );
      refused(t, await guess('198.51.99.3'), 401, 'invalid_credentials');
    },
  );

  await t.test('allowed, private, loopback and untrusted addresses are not counted', async (t) => {
    const lenient = await open({ RATE_LIMIT_ALLOW: '203.0.113.0/24', TRUST_PROXY: 'loopback' });
    // 127.0.0.1 stands in the log as the address of a store that failed.
    const addresses = ['203.0.113.9', '10.1.2.3', '100.64.1.1', '192.168.1.1', '127.1.2.3', 'fd00::1', '::1'];
    for (const address of addresses) {
      for (let i = 0; i < 7; i++) refused(t, await guess(address, lenient), 401, 'invalid_credentials');
    }
    const stray = await open({ TRUST_PROXY: 'false' });
    for (let i = 0; i < 7; i++) refused(t, await guess('203.0.113.9', stray), 401, 'invalid_credentials');
    for (const app of [lenient, stray]) {
      const warnings = app.log().match(/RATE_LIMIT_LLT_NETWORK do not count them/g) ?? [];
      t.equal(warnings.length, 1, 'one warning');
      // That warning names the unlisted relay itself, since its address is private (ADR 14).
      const others = app
        .log()
        .split('\n')
        .filter((line) => !line.includes('a relay forwards an address'));
      for (const address of addresses) t.notMatch(others.join('\n'), address);
    }
  });
});
