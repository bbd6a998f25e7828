import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, createLongLived, logIn, signUp, verify } from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { refused } from '../support/problem.ts';
import { sql } from '../support/sql.ts';
import { redeem } from '../support/resets.ts';

const REFRESH_TOKEN_SECRET = Buffer.alloc(32, 7).toString('base64url');

/** A running replica, which tells the fast store of changes. */
async function aReplica(t: Parameters<typeof buildTestApp>[0]) {
  const target = await buildTestApp(t, { env: { REFRESH_TOKEN_SECRET } });
  target.composition.start();
  const { databaseUrl: DATABASE_URL } = target;
  const run = (words: string[], env = {}) => latchkey(['user', ...words], { DATABASE_URL, ...env });
  return { target, DATABASE_URL, run };
}

test('user roles replaces the roles, and waits until verify has them', async (t) => {
  const { target, run } = await aReplica(t);
  const account = anAccount();
  const { access_token: token, user } = await signUp(target, account);
  const rolesOf = async () => (await verify(target, token)).headers['x-auth-roles'];
  const set = await run(['roles', account.username, '--set', 'admin,billing:read', '--json']);
  t.equal(set.code, 0, set.stderr);
  t.strictSame(JSON.parse(set.stdout), { user: user.id, roles: ['admin', 'billing:read'], done: true });
  t.equal(await rolesOf(), 'admin,billing:read');
  t.match(set.audit, [{ event: 'user.roles', subject: { user_id: user.id }, details: { done: true } }]);
  t.match(await run(['roles', '--id', String(user.id), '--set', '']), { code: 0, stdout: 'roles: none\n' });
  t.equal(await rolesOf(), '');
  t.match(await run(['roles', account.username, '--set', 'Admin']), { code: 1, stderr: /roles must hold/ });
  t.match(await run(['roles', account.username]), { code: 2, stderr: /user roles needs --set/ });
  t.match(await run(['roles', 'unknown', '--set', 'a']), { code: 1, stderr: /there is no such user/ });
  t.equal(await rolesOf(), '', 'a refusal changes nothing');
});

test('user delete ends every token, erases the account and reserves its names', async (t) => {
  const { target, run, DATABASE_URL } = await aReplica(t);
  const account = anAccount();
  const { access_token: token, user } = await signUp(target, account);
  const { longlived_token: llt } = await createLongLived(target, token);
  t.match(await run(['delete', account.username], { REFRESH_TOKEN_SECRET }), {
    code: 2,
    stderr: /give --yes/,
  });
  t.match(await run(['delete', account.username, '--yes']), { code: 1, stderr: /REFRESH_TOKEN_SECRET/ });
  t.equal((await verify(target, token)).statusCode, 200, 'nothing has changed');

  const { user: sameUser } = await logIn(target, account.username);
  await sql(DATABASE_URL, 'UPDATE tokens SET latest = latest - $1 WHERE id = (SELECT max(id) FROM tokens)', [
    40 * 86_400_000_000,
  ]);
  t.equal(sameUser.id, user.id, 'a session that has expired does not count');
  const deleted = await run(['delete', account.email, '--yes', '--json'], { REFRESH_TOKEN_SECRET });
  t.equal(deleted.code, 0, deleted.stderr);
  t.strictSame(JSON.parse(deleted.stdout), { user: user.id, ended: 2, done: true });
  t.match(deleted.audit, [{ event: 'user.delete', subject: { user_id: user.id }, details: { ended: 2 } }]);
  for (const each of [token, llt]) t.equal((await verify(target, each)).statusCode, 401);
  const signup = await call(target, 'POST /api/auth/signup', { payload: account });
  refused(t, signup, 400, 'username_taken');
  t.match(await run(['delete', account.username, '--yes'], { REFRESH_TOKEN_SECRET }), { code: 1 });

  const words = ['create', account.username, '--display-name', 'A', '--email', anAccount().email];
  t.match(await run(words), { code: 1, stderr: /REFRESH_TOKEN_SECRET/ }, 'names are reserved');
  t.match(await run(words, { REFRESH_TOKEN_SECRET }), { code: 1, stderr: /username is taken/ });
  const line = { ...account, password: undefined, password_hash: `$2b$04$${'a'.repeat(53)}` };
  const file = `${t.testdir({ file: `${JSON.stringify(line)}\n` })}/file`;
  t.match(await run(['import', file]), { code: 1, stderr: /REFRESH_TOKEN_SECRET/ });
  t.match(await run(['import', file], { REFRESH_TOKEN_SECRET }), {
    code: 1,
    stderr: /line 1: username or email is reserved/,
  });
  await sql(DATABASE_URL, 'DELETE FROM reserved_names');
  t.match(await run(['import', file]), { code: 0 });
});

test('without a running replica the record changes, and the exit code says that no replica has confirmed', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  await sql(
    DATABASE_URL,
    `INSERT INTO users (id, username, username_skeleton, email, name, password_hash) VALUES (7, 'ada', 'ada', 'ada@example.com', 'Ada', '')`,
  );
  const set = await latchkey(['user', 'roles', 'ada', '--set', 'admin', '--json'], { DATABASE_URL });
  t.match(set, { code: 1, audit: [{ details: { done: false } }] });
  t.strictSame(JSON.parse(set.stdout), { user: 7, roles: ['admin'], done: false });
  t.strictSame(await sql(DATABASE_URL, 'SELECT roles FROM users'), [{ roles: ['admin'] }]);
});

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
