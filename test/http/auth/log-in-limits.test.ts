import { buildTestApp, type TestApp } from '../../support/app.ts';
import {
  anAccount,
  claimsOf,
  call,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { countRows, sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const ROUTE = 'POST /api/auth';
const PASSWORD = 'difference engine';

onAStore('login with other limits', async (t, env) => {
  await t.test('replaces the oldest session', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, MAX_SESSIONS_PER_USER: '2' } });
    const { username, ...account } = anAccount();
    const first = await signUp(target, { username, ...account });
    const { longlived_token: llt } = await createLongLived(target, first.access_token);
    const others = [await logIn(target, username), await logIn(target, username)];
    refused(t, await verify(target, first.access_token), 401, 'invalid_token');
    refused(t, await refresh(target, first.refresh_token), 401, 'invalid_token');
    for (const { access_token: token } of others) t.equal((await verify(target, token)).statusCode, 200);
    t.equal((await verify(target, llt)).statusCode, 200, 'a long-lived token is no session');
  });

  await t.test('replaces the least recently used session', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, MAX_SESSIONS_PER_USER: '2' } });
    target.composition.start();
    const { username, ...account } = anAccount();
    const first = await signUp(target, { username, ...account });
    const second = await logIn(target, username);
    const used = pairOf(await refresh(target, first.refresh_token));
    // The record decides, and it learns of a rotation later (write-behind).
    const { sid, gen } = claimsOf(used.access_token);
    await until(async () => (await latestOf(target, sid)) === gen);
    await logIn(target, username);
    t.equal((await verify(target, used.access_token)).statusCode, 200);
    refused(t, await refresh(target, second.refresh_token), 401, 'invalid_token');
  });

  await t.test('holds the limit when logins race', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, MAX_SESSIONS_PER_USER: '2' } });
    const { username, ...account } = anAccount();
    await signUp(target, { username, ...account });
    const pairs = await Promise.all(Array.from({ length: 8 }, () => logIn(target, username)));
    const answers = await Promise.all(pairs.map(({ access_token: token }) => verify(target, token)));
    t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 2);
  });

  await t.test('hashes a password anew when the parameters have changed', async (t) => {
    const before = await buildTestApp(t, { env });
    const account = anAccount();
    await signUp(before, account);
    const { databaseUrl } = before;
    const after = await buildTestApp(t, { databaseUrl, env: { ...env, SCRYPT_LOG_N: '5', SCRYPT_P: '2' } });
    const work = () => workDone(t, () => logIn(after, account.username));
    t.equal((await call(after, ROUTE, { payload: { ...account, password: 'wrong one' } })).statusCode, 400);
    refused(
      t,
      await call(after, ROUTE, { payload: { username: account.username, password: 'wrong one' } }),
      401,
      'invalid_credentials',
    );
    t.strictSame(hashing(await work()), ['verify a hash of 4/8/1', 'hash at 5/8/2'], 'once');
    t.strictSame(hashing(await work()), ['verify a hash of 5/8/2'], 'and never again');
    t.equal((await logIn(before, account.username)).user.username, account.username);
  });

  await t.test('refuses a stored hash whose parameters exceed the limits', async (t) => {
    const target = await buildTestApp(t, { env });
    const account = anAccount();
    await signUp(target, account);
    await raiseStoredCost(target, account.username);
    const { username } = account;
    const response = await call(target, ROUTE, { payload: { username, password: PASSWORD } });
    refused(t, response, 500, 'internal_error');
    t.strictSame(await countRows(target.databaseUrl), { users: 1, tokens: 1 });
  });
});

function hashing(steps: string[]): string[] {
  return steps.filter((step) => /^(verify|hash) /.test(step));
}

/** Byte 7 of scrypt's header is logN. */
async function raiseStoredCost({ databaseUrl }: TestApp, username: string): Promise<void> {
  await sql(
    databaseUrl,
    'UPDATE users SET password_hash = set_byte(password_hash, 7, 24) WHERE username = $1',
    [username],
  );
}

async function latestOf({ databaseUrl }: TestApp, tokenId: unknown): Promise<number> {
  const rows = await sql<{ latest: string }>(databaseUrl, 'SELECT latest FROM tokens WHERE id = $1', [
    tokenId,
  ]);
  return Number(rows[0]?.latest);
}
