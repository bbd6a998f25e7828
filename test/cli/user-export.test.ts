import { spawnSync } from 'node:child_process';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, logIn, signUp } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';
import { cheapHashes, IMPORTED_PASSWORD, usersFile } from '../support/users-file.ts';

const FIELDS_OF_1_0_0 = 'username name email password_hash created_at roles disabled email_verified'.split(
  ' ',
);

test('what is exported can be imported elsewhere: every account logs in there', async (t) => {
  const from = await buildTestApp(t, { env: { HASH_MEMORY: '21' } });
  const ada = anAccount();
  await signUp(from, ada);
  const { argon2 } = await cheapHashes();
  const old = { username: 'old', name: 'Old', email: 'old@example.com', password_hash: argon2 };
  const file = usersFile(t, [
    {
      ...old,
      external_id: 'crm-7',
      locale: 'pt-br',
      roles: ['staff'],
      email_verified: true,
      created_at: '2020-01-01T00:00:00.000Z',
    },
  ]);
  t.equal((await latchkey(['user', 'import', file], { DATABASE_URL: from.databaseUrl })).code, 0);
  await sql(from.databaseUrl, "UPDATE users SET disabled_at = now() WHERE username = 'none'");

  const path = join(testFolder(t), 'users.jsonl');
  const exported = await latchkey(['user', 'export', path, '--json'], { DATABASE_URL: from.databaseUrl });
  t.equal(exported.code, 0, exported.stderr);
  t.equal(exported.stdout, '{"exported":2}\n');
  t.match(exported.audit, [{ event: 'user.export', outcome: 'success', details: { exported: 2 } }]);
  t.equal(statSync(path).mode & 0o777, 0o600, 'for its owner only');
  const lines = readFileSync(path, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  const rest = { disabled: false, roles: [], email_verified: false };
  t.match(lines, [
    {
      ...rest,
      username: ada.username,
      email: ada.email,
      password_hash: /^\$scrypt-kdf\$[A-Za-z0-9+/]{128}$/,
    },
    {
      ...old,
      external_id: 'crm-7',
      locale: 'pt-BR',
      roles: ['staff'],
      email_verified: true,
      created_at: '2020-01-01T00:00:00.000Z',
    },
  ]);
  t.strictSame(
    Object.keys(lines[0] ?? {}).filter((field) => !FIELDS_OF_1_0_0.includes(field)),
    [],
    'an import of 1.0.0 reads an account without the optional fields',
  );

  const to = await buildTestApp(t, { env: { HASH_MEMORY: '21' } });
  const imported = await latchkey(['user', 'import', path, '--json'], { DATABASE_URL: to.databaseUrl });
  t.equal(imported.stdout, '{"imported":2,"refused":0,"skipped":0}\n', imported.stderr);
  t.equal((await logIn(to, ada.username)).user.username, ada.username);
  t.equal((await logIn(to, 'old@example.com', IMPORTED_PASSWORD)).user.username, 'old');
  const again = await latchkey(['user', 'export'], { DATABASE_URL: to.databaseUrl });
  const [first] = again.stdout.split('\n');
  t.strictSame(JSON.parse(first ?? ''), lines[0], 'and are the same there');
  t.match(again.stdout, '"external_id":"crm-7"');
  t.match(again.stdout, '"locale":"pt-BR"');
});

test('an export to standard output is nothing but lines; it never replaces a file', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const empty = await latchkey(['user', 'export', '--json'], { DATABASE_URL });
  t.match(empty, { code: 0, stdout: '', stderr: '{"exported":0}\n' });
  await sql(
    DATABASE_URL,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     SELECT 'u' || n, 'u' || n, n || '@example.com', 'Ada', '' FROM generate_series(1, 1200) AS n`,
  );
  const { stdout, stderr } = await latchkey(['user', 'export'], { DATABASE_URL });
  const names = stdout
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as { username: string }).username);
  t.strictSame(
    names,
    Array.from({ length: 1200 }, (_, index) => `u${index + 1}`),
    'in the order of ids',
  );
  t.match(stderr, /^exported 1200 accounts, with their password hashes and e-mail addresses\n$/);

  const path = join(testFolder(t), 'mine');
  writeFileSync(path, 'precious');
  t.match(await latchkey(['user', 'export', path], { DATABASE_URL }), {
    code: 1,
    stderr: /mine cannot be created \(EEXIST\)/,
  });
  t.equal(readFileSync(path, 'utf8'), 'precious');
  t.match(await latchkey(['user', 'export', '/none/here'], { DATABASE_URL }), {
    code: 1,
    stderr: /\(ENOENT\)/,
  });
  t.equal((await latchkey(['user', 'export', 'a', 'b'], { DATABASE_URL })).code, 2);
});

test('a reader that goes away ends an export with a reason', async (t) => {
  const { url } = await testDatabase(t);
  await sql(
    url,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     SELECT 'u' || n, 'u' || n, n || '@example.com', repeat('x', 100), '' FROM generate_series(1, 5000) AS n`,
  );
  const cli = new URL('../../src/cli.js', import.meta.url).pathname;
  const { stderr } = spawnSync(
    'bash',
    ['-c', '"$1" "$2" user export | head -1 >/dev/null', 'bash', process.execPath, cli],
    {
      env: bareEnvironment({ DATABASE_URL: url }),
      encoding: 'utf8',
    },
  );
  t.match(stderr, /standard output cannot be written \(EPIPE\)/);
});
