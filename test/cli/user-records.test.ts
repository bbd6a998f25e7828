import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, signUp } from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { refused } from '../support/problem.ts';
import { sql } from '../support/sql.ts';

test('user show tells of an account by name, address or id, without address and password', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const account = anAccount();
  const { user } = await signUp(target, account);
  await sql(DATABASE_URL, "UPDATE users SET roles = '{a,b}', email_verified_at = now()");
  const expected = { ...user, disabled: false, email_verified: true, roles: ['a', 'b'] };
  for (const words of [[account.username], [account.email.toUpperCase()], ['--id', String(user.id)]]) {
    const shown = await latchkey(['user', 'show', ...words, '--json'], { DATABASE_URL });
    t.equal(shown.code, 0, shown.stderr);
    t.strictSame(JSON.parse(shown.stdout), expected);
    t.match(shown.audit, [{ event: 'user.show', subject: { user_id: user.id } }]);
  }
  const { stdout } = await latchkey(['user', 'show', account.username], { DATABASE_URL });
  t.match(stdout, /^id +\d+\nusername .*\nroles +a,b\n$/s);
  t.match(await latchkey(['user', 'show', 'unknown'], { DATABASE_URL }), {
    code: 1,
    stderr: /there is no such user/,
  });
});

test('user list shows accounts in pages, in the order of ids', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const list = async (...words: string[]) =>
    JSON.parse((await latchkey(['user', 'list', ...words, '--json'], { DATABASE_URL })).stdout) as {
      users: { id: number }[];
      next: number | null;
    };
  t.strictSame(await list(), { users: [], next: null });
  await sql(
    DATABASE_URL,
    `INSERT INTO users (id, username, username_skeleton, email, name, password_hash, disabled_at)
     SELECT n, 'u' || n, 'u' || n, n || '@example.com', 'Ada', '', CASE WHEN n = 3 THEN now() END FROM generate_series(1, 5) AS n`,
  );
  t.match(await list('--limit', '2'), { users: [{ id: 1 }, { id: 2 }], next: 2 });
  t.match(await list('--limit', '2', '--after', '2'), {
    users: [{ id: 3, disabled: true }, { id: 4 }],
    next: 4,
  });
  t.match(await list('--limit', '1', '--after', '4'), { users: [{ id: 5 }], next: null });
  const { stdout, audit } = await latchkey(['user', 'list', '--limit', '3'], { DATABASE_URL });
  t.equal(stdout, 'id\tusername\tname\n1\tu1\tAda\n2\tu2\tAda\n3\tu3\tAda\tdisabled\nmore: --after 3\n');
  t.match(audit, [{ event: 'user.list', details: { shown: 3 } }]);
  t.notMatch(stdout, /@/);
  for (const words of [
    ['--limit', '0'],
    ['--limit', '1001'],
    ['--limit', 'x'],
    ['--after', '-1'],
    ['--id', '1'],
    ['ada'],
  ])
    t.equal((await latchkey(['user', 'list', ...words], { DATABASE_URL })).code, 2, words.join(' '));
});

test('user create adds an account that no password opens, by the rules of a signup', async (t) => {
  const target = await buildTestApp(t, { env: { SIGNUP_ENABLED: 'false' } });
  const { databaseUrl: DATABASE_URL } = target;
  const create = (username: string, email: string, ...more: string[]) =>
    latchkey(['user', 'create', username, '--display-name', 'Ada', '--email', email, '--json', ...more], {
      DATABASE_URL,
    });
  const created = await create('Ada', 'Ada@example.com', '--roles', 'a,b');
  t.equal(created.code, 0, created.stderr);
  const { user } = JSON.parse(created.stdout) as { user: number };
  t.match(created.audit, [{ event: 'user.create', subject: { user_id: user } }]);
  const rows = await sql(
    DATABASE_URL,
    'SELECT username, email, roles, username_skeleton AS skeleton FROM users',
  );
  t.match(rows, [{ username: 'ada', email: 'ada@example.com', roles: ['a', 'b'], skeleton: 'ada' }]);
  for (const password of ['', ' ', 'difference engine', 'null']) {
    const payload = { username: 'ada', password: password || 'x' };
    refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
  }
  t.match(await create('ADA', 'b@example.com'), { code: 1, stderr: /username is taken/ });
  t.match(await create('аԁа', 'b@example.com'), { code: 1, stderr: /username is taken, or looks like/ });
  t.match(await create('bob', 'ADA@example.com'), { code: 1, stderr: /email is taken/ });
  t.match(await create('root', 'no-address'), { code: 1, stderr: /username must not be.*; email must be/ });
  t.match(await create('bob', 'b@example.com', '--roles', 'A'), { code: 1, stderr: /roles must hold/ });
  t.equal((await latchkey(['user', 'create', 'bob'], { DATABASE_URL })).code, 2);
  t.equal((await latchkey(['user', 'create'], { DATABASE_URL })).code, 2);
});
