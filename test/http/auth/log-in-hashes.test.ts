import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, signUp } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { disableUser } from '../../support/sql.ts';

const PASSWORD = 'difference engine';
const UNKNOWN = 'unknown-user';
const OLD_COST = { SCRYPT_LOG_N: '3', SCRYPT_P: '2' };

function attempt(target: TestApp, username: string, password: string, from = '192.0.2.1') {
  const headers = { 'content-type': 'application/json' };
  const payload = JSON.stringify({ username, password });
  return target.app.inject({ method: 'POST', url: '/api/auth', remoteAddress: from, headers, payload });
}

/** A service with current parameters and three accounts: an outdated hash, a current hash, and one disabled. */
async function accountsOfOld(databaseUrl: string, old: TestApp) {
  const [ada, gone] = [anAccount(), anAccount()];
  for (const account of [ada, gone]) await signUp(old, account);
  await disableUser(databaseUrl, gone.username);
  return { ada, gone };
}

test('failed logins do the same work while hashes of old parameters exist', async (t) => {
  const old = await buildTestApp(t, { env: OLD_COST });
  const { databaseUrl } = old;
  const { ada, gone } = await accountsOfOld(databaseUrl, old);
  const target = await buildTestApp(t, { databaseUrl });
  const bob = anAccount();
  await signUp(target, bob);
  const hashes = async (username: string, password: string) => {
    const steps = await workDone(t, async () => {
      refused(t, await attempt(target, username, password), 401, 'invalid_credentials');
    });
    return steps.filter((step) => step.includes('hash of')).sort();
  };

  const work = ['verify a hash of 3/8/2', 'verify a hash of 4/8/1'];
  t.strictSame(await hashes(UNKNOWN, PASSWORD), work, 'from the first request on');
  t.strictSame(await hashes(ada.username, 'wrong'), work, 'an old hash');
  t.strictSame(await hashes(bob.username, 'wrong'), work, 'a hash of today');
  t.strictSame(await hashes(gone.username, PASSWORD), work, 'disabled, with the right password');
  const { username } = ada;
  const success = await workDone(t, () =>
    call(target, 'POST /api/auth', { payload: { username, password: PASSWORD } }),
  );
  t.strictSame(
    success.filter((step) => /hash (of|at)/.test(step)),
    ['verify a hash of 3/8/2', 'hash at 4/8/1'],
    'a login does no extra work',
  );
});

test('hash parameters first seen while the service runs count from then on', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl } = target;
  const old = await buildTestApp(t, { databaseUrl, env: OLD_COST });
  const { ada } = await accountsOfOld(databaseUrl, old);
  const hashes = async (username: string) => {
    const steps = await workDone(t, () => attempt(target, username, 'wrong'));
    return steps.filter((step) => step.includes('hash of')).sort();
  };
  t.strictSame(await hashes(UNKNOWN), ['verify a hash of 4/8/1']);
  const work = ['verify a hash of 3/8/2', 'verify a hash of 4/8/1'];
  t.strictSame(await hashes(ada.username), work);
  t.strictSame(await hashes(UNKNOWN), work);
  t.match(target.log(), /"costs":\["scrypt 4\/8\/1","scrypt 3\/8\/2"\]/);
});
