import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { locksAwaited } from '../support/begun.ts';
import { anAccount, call, logIn, refresh, signUp } from '../support/client.ts';
import { onAStoreWithEachLasting } from '../support/lasting.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { refused } from '../support/problem.ts';
import { testRecords } from '../support/records.ts';
import { ROOM } from '../support/token.ts';

onAStoreWithEachLasting('user disable ends the user’s tokens and blocks logins', async (t, env, lasting) => {
  const { createLongLived, verify } = lasting;
  const target = await buildTestApp(t, { env });
  target.composition.start();
  const { databaseUrl: DATABASE_URL } = target;
  const pair = await signUp(target);
  const other = await signUp(target);
  const { username } = pair.user;
  const { longlived_token: llt } = await createLongLived(target, pair.access_token);
  t.equal((await verify(target, llt)).statusCode, 200);

  const disabled = await latchkey(['user', 'disable', username.toUpperCase(), '--json'], { DATABASE_URL });
  t.equal(disabled.code, 0, disabled.stderr);
  t.strictSame(JSON.parse(disabled.stdout), { user: pair.user.id, ended: 2, done: true });
  for (const token of [pair.access_token, llt]) refused(t, await verify(target, token), 401, 'invalid_token');
  refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
  const payload = { username, password: 'difference engine' };
  refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
  t.equal((await verify(target, other.access_token)).statusCode, 200, 'other users keep their tokens');

  t.match(await latchkey(['user', 'disable', username], { DATABASE_URL }), {
    code: 0,
    stdout: 'disabled, 0 tokens ended\n',
  });
  t.match(await latchkey(['user', 'enable', username], { DATABASE_URL }), { code: 0, stdout: 'enabled\n' });
  refused(t, await verify(target, llt), 401, 'invalid_token');
  const again = await logIn(target, username);
  t.equal((await verify(target, again.access_token)).statusCode, 200);
});

test('a login that races with a disable is ended by it or refused', async (t) => {
  const { url, tokens, aSession } = await testRecords(t);
  const { userId } = await aSession();
  const session = {
    name: 'late',
    createdAt: Date.now(),
    state: { latest: 9e6, parent: 0, first: 9e6, confirmed: false, caller: '' },
  };
  await withClient(url, async (client) => {
    const { rows } = await client.query<{ username: string }>('SELECT username FROM users');
    const username = rows[0]?.username ?? '';
    // The login has locked the row and has not committed; the disable waits for it.
    await client.query('BEGIN');
    await client.query('SELECT id FROM users WHERE id = $1 FOR NO KEY UPDATE', [userId]);
    const disabling = latchkey(['user', 'disable', username, '--json'], { DATABASE_URL: url });
    await locksAwaited(url);
    await client.query(
      "INSERT INTO tokens (user_id, type, name, created_at, latest) VALUES ($1, 'session', 'racing', now(), $2)",
      [userId, Date.now() * 1000],
    );
    await client.query('COMMIT');
    const { code, stdout } = await disabling;
    t.equal(code, 1, 'no running replica could confirm it');
    t.match(JSON.parse(stdout), { ended: 1, done: false }, 'the other session has long expired');
    t.equal(await tokens.addSession(userId, session, ROOM), null);
  });
});

test('user reports bad usage and an unknown user', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  for (const args of [[], ['disable'], ['frobnicate', 'ada'], ['disable', 'ada', 'bob']])
    t.equal((await latchkey(['user', ...args], { DATABASE_URL })).code, 2, args.join(' '));
  for (const name of ['unknown', 'not a name'])
    t.match(await latchkey(['user', 'enable', name], { DATABASE_URL }), {
      code: 1,
      stderr: /there is no such user/,
    });
});

test('a user command takes a username, an e-mail address or --id, and never guesses an id', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const first = await signUp(target);
  const account = anAccount({ username: String(first.user.id) });
  const { user } = await signUp(target, account);
  const told = async (...names: string[]) => {
    const { stdout, stderr } = await latchkey(['user', 'enable', ...names, '--json'], { DATABASE_URL });
    return JSON.parse(stdout || stderr) as { user?: number; error?: string };
  };
  t.match(await told(account.email.toUpperCase()), { user: user.id });
  t.match(await told(String(first.user.id)), { user: user.id }, 'a username of digits is no id');
  t.match(await told('--id', String(first.user.id)), { user: first.user.id });
  t.match(await told('--id', '999999'), { error: 'there is no such user' });
  const listed = await latchkey(['user', 'tokens', '--id', String(user.id), '--json'], { DATABASE_URL });
  t.match(JSON.parse(listed.stdout), { user: user.id, tokens: [{ id: Number }] });
  for (const words of [['--id', 'x'], ['--id', '0'], ['ada', '--id', '1'], []]) {
    const { code, stderr } = await latchkey(['user', 'disable', ...words], { DATABASE_URL });
    t.match({ code, stderr }, { code: 2, stderr: /--id/ }, words.join(' '));
  }
});
