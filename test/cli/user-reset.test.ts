import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, logIn, signUp, verify } from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { refused } from '../support/problem.ts';
import { redeem } from '../support/resets.ts';
import { countRows, sql } from '../support/sql.ts';

interface Shown {
  user: number;
  reset_token: string;
  expires_at: string;
  disabled: boolean;
}

test('user reset makes a token that sets a new password, by name, address or id', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const account = anAccount();
  const { user, access_token } = await signUp(target, account);
  let last = '';
  for (const words of [[account.username.toUpperCase()], [account.email], ['--id', String(user.id)]]) {
    const { code, stdout, stderr } = await latchkey(['user', 'reset', ...words, '--json'], { DATABASE_URL });
    t.equal(code, 0, stderr);
    const shown = JSON.parse(stdout) as Shown;
    t.match(shown, { user: user.id, reset_token: /^lkr_[\w-]{43}$/, disabled: false });
    t.strictSame(Object.keys(shown), ['user', 'reset_token', 'expires_at', 'disabled']);
    const seconds = (Date.parse(shown.expires_at) - Date.now()) / 1000;
    t.ok(seconds > 1500 && seconds < 2100, `${seconds}`);
    if (last !== '') refused(t, await redeem(target, last), 401, 'invalid_reset_token');
    last = shown.reset_token;
    t.notMatch(stderr, last.slice(4));
  }
  t.equal((await verify(target, access_token)).statusCode, 200, 'nothing ends before it is redeemed');
  t.equal((await redeem(target, last, 'an analytical engine')).statusCode, 200);
  await logIn(target, account.username, 'an analytical engine');
});

test('user reset obeys PASSWORD_RESET_TTL, and prints for people', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const account = anAccount();
  const { user } = await signUp(target, account);
  await sql(DATABASE_URL, `UPDATE users SET disabled_at = now() WHERE id = ${user.id}`);
  const env = { DATABASE_URL, PASSWORD_RESET_TTL: '86400' };
  const { code, stdout, audit } = await latchkey(['user', 'reset', account.username], env);
  t.equal(code, 0);
  t.match(stdout, /^reset_token {2}lkr_\S+\nexpires_at {3}\S+Z\n.*not be shown again.*\n.*is disabled/);
  t.notMatch(stdout, account.email);
  const expires = Date.parse(/expires_at +(\S+)/.exec(stdout)?.[1] ?? '');
  t.ok(expires - Date.now() > 80_000_000);
  const { reset_token: token } = { reset_token: /lkr_\S+/.exec(stdout)?.[0] ?? '' };
  t.match(audit, [{ event: 'user.reset', outcome: 'success', subject: { user_id: user.id } }]);
  t.notOk(JSON.stringify(audit).includes(token));
  const expired = await latchkey(['user', 'reset', account.username], {
    DATABASE_URL,
    PASSWORD_RESET_TTL: '1',
  });
  t.match(expired, { code: 1, stderr: /PASSWORD_RESET_TTL/ });
  t.equal((await redeem(target, token)).statusCode, 200);
});

test('user reset refuses unknown users and bad usage', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  await signUp(target);
  for (const words of [['unknown'], ['not a name'], ['no@such.example'], ['--id', '999']])
    t.match(await latchkey(['user', 'reset', ...words], { DATABASE_URL }), {
      code: 1,
      stderr: /there is no such user/,
    });
  for (const words of [[], ['a', 'b'], ['a', '--id', '1'], ['--id', 'x']])
    t.match(await latchkey(['user', 'reset', ...words], { DATABASE_URL }), { code: 2 });
  t.match(await countRows(DATABASE_URL), { users: 1 });
  t.strictSame(await sql(DATABASE_URL, 'SELECT * FROM password_resets'), []);
});

test('purge deletes expired reset tokens, and leaves others', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const accounts = [await signUp(target), await signUp(target)];
  for (const { user } of accounts) await latchkey(['user', 'reset', user.username], { DATABASE_URL });
  await sql(
    DATABASE_URL,
    `UPDATE password_resets SET expires_at = now() WHERE user_id = ${accounts[0]?.user.id}`,
  );
  t.match(await latchkey(['purge'], { DATABASE_URL }), { code: 0 });
  const left = await sql<{ user_id: string }>(DATABASE_URL, 'SELECT user_id FROM password_resets');
  t.strictSame(
    left.map((row) => Number(row.user_id)),
    [accounts[1]?.user.id],
  );
});
