import { chmodSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parseArguments, UsageError } from '../../src/cli/arguments.ts';
import { CommandError } from '../../src/cli/command.ts';
import { run } from '../../src/cli/keys.ts';
import { reportKeys } from '../../src/doctor/key-report.ts';
import { countLongLived } from '../../src/infra/postgres/key-records.ts';
import { buildTestApp } from '../support/app.ts';
import { call, createLimited, createLongLived, signUp } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';

interface Listed {
  keys: { kid: string; file: string; state: string; next: string | null; longLived: number }[];
}

/** A folder of keys and a database, without a running service. */
async function aWorld(t: Test, folder = t.testdir({})) {
  const { url } = await testDatabase(t);
  const env = {
    DATABASE_URL: url,
    SIGNING_KEYS_DIR: folder,
    REFRESH_TOKEN_SECRET: aSecret(),
    KEY_PUBLISH_LEAD: '600',
  };
  // Runs in this process: starting a dozen processes is slow.
  const keys = async (...args: string[]) => {
    const { values, positionals: words } = parseArguments(args);
    const stopped = () => new AbortController().signal;
    try {
      const { result, text } = await run({ env, words, values, note: () => undefined, stopped });
      return { code: 0, stdout: values.json ? JSON.stringify(result) : text, stderr: '' };
    } catch (error) {
      if (error instanceof UsageError) return { code: 2, stdout: '', stderr: 'Usage' };
      if (!(error instanceof CommandError)) throw error;
      const { message, facts } = error;
      return {
        code: 1,
        stdout: '',
        stderr: values.json ? JSON.stringify({ ...facts, error: message }) : message,
      };
    }
  };
  const states = async () =>
    (JSON.parse((await keys('list', '--json')).stdout) as Listed).keys.map(({ state }) => state);
  return {
    folder,
    url,
    env,
    keys,
    states,
    serve: async () => {
      const target = await buildTestApp(t, { databaseUrl: url, env });
      target.composition.start();
      return target;
    },
    /** Ages all recorded times by an hour. */
    pass: () =>
      sql(
        url,
        `UPDATE signing_keys SET first_seen_at = first_seen_at - interval '1 hour',
          published_at = published_at - interval '1 hour', signs_since = signs_since - interval '1 hour',
          signed_at = signed_at - interval '1 hour'`,
      ),
  };
}

/** Runs as an unprivileged user: root may write everywhere. */
async function withoutRoot<Result>(act: () => Promise<Result>): Promise<Result> {
  if (process.geteuid?.() !== 0) return act();
  process.seteuid?.(65_534);
  try {
    return await act();
  } finally {
    process.seteuid?.(0);
  }
}

test('keys add makes a file that only its owner can read, and says when the key starts signing', async (t) => {
  const { folder, keys } = await aWorld(t);
  t.match(await keys('add'), { code: 0, stdout: /ES256 .*; it is the only key, and signs at once/ });
  const second = await keys('add', '--alg', 'EdDSA', '--json');
  t.match(JSON.parse(second.stdout), { algorithm: 'EdDSA', file: /-b\.pem$/, signsFrom: /Z$/ });
  t.match(await keys('add', '--alg', 'RS256'), {
    stdout: /RS256 .* 600 s after the last replica has loaded it/,
  });
  t.equal(readdirSync(folder).length, 3);
  for (const name of readdirSync(folder)) t.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
});

test('a key goes through its states, and can be retired once nothing needs it', async (t) => {
  const { folder, keys, states, serve, pass, url, env } = await aWorld(t);
  writeFileSync(join(folder, '0001.pem'), KEYS.ES256());
  t.strictSame(await states(), ['unseen']);
  t.match(await keys('doctor'), { code: 0, stdout: /warn .* no replica has loaded 0001/ });
  writeFileSync(join(folder, '0000.pem'), KEYS.ES256());
  t.match(await keys('retire', '0000.pem'), { code: 1, stderr: /unknown whether/ });
  rmSync(join(folder, '0000.pem'));
  const target = await serve();
  const { keyRing } = target.composition.app;
  const { access_token: token } = await signUp(target);
  t.strictSame(await states(), ['signing']);
  t.match(await keys('retire', '0001.pem'), { code: 1, stderr: /only key/ });
  t.match(await keys('retire', '0001.pem', '--force'), { code: 1, stderr: /only key/ });

  await keys('add');
  const [newest = ''] = readdirSync(folder).filter((name) => name !== '0001.pem');
  await until(async () => (await states())[0] === 'published');
  t.match(await keys('list'), { stdout: /published since .*Z, signs from .*Z/ });
  t.match(await keys('doctor'), { stdout: /signs from .*Z/ });
  const lasting = [await createLongLived(target, token), await createLimited(target, token)];
  t.match(await keys('retire', '0001.pem'), { code: 1, stderr: /0001\.pem is the signing key/ });

  await pass();
  await until(async () => (await states())[0] === 'signing');
  t.strictSame(await states(), ['signing', 'verifying']);
  t.match(await keys('retire', '0001.pem'), { code: 1, stderr: /needed for 2 good long-lived tokens/ });
  t.match(await keys('doctor'), { stdout: /needed for 2 long-lived/ });
  for (const { id } of lasting)
    t.equal((await call(target, `DELETE /api/auth/llt/${id}`, { token })).statusCode, 200);
  const refused = await keys('retire', '0001.pem', '--json');
  t.equal(refused.code, 1);
  t.match(JSON.parse(refused.stderr), { retired: false, from: /Z$/, error: /may be good until/ });
  await sql(
    url,
    "UPDATE signing_keys SET signed_at = signed_at - interval '1 hour', signs_since = signs_since - interval '1 hour'",
  );
  t.strictSame(await states(), ['signing', 'retirable']);
  const longer = await reportKeys({ ...env, SERVICE_TOKEN_TTL: '3600' }, url);
  t.match(longer.keys[1], { state: 'verifying' }, 'a service token of it may be good');
  t.match(await keys('doctor'), { stdout: /warn .*latchkey keys retire 0001\.pem/ });
  t.match(await keys('retire', '0001.pem'), { code: 0, stdout: /^removed / });
  t.strictSame(readdirSync(folder), [newest]);
  await until(async () => (await keyRing.reload()).signing.length === 1);
  t.equal(
    (await call(target, 'GET /api/user', { token: (await signUp(target)).access_token })).statusCode,
    200,
  );
});

test('keys retire --force removes a leaked key at once and says what that breaks', async (t) => {
  const { folder, keys, serve } = await aWorld(t);
  writeFileSync(join(folder, '0001.pem'), KEYS.ES256());
  const target = await serve();
  await createLongLived(target, (await signUp(target)).access_token);
  await keys('add');
  const forced = await keys('retire', '0001.pem', '--force');
  t.match(forced, { code: 0, stdout: /clients refresh them, and 1 long-lived tokens have ended/ });
  t.equal(readdirSync(folder).length, 1);
});

test('retiring a key that has two file names removes both', async (t) => {
  const { folder, keys, serve } = await aWorld(t);
  const leaked = KEYS.ES256();
  writeFileSync(join(folder, '0001.pem'), leaked);
  await serve();
  writeFileSync(join(folder, '0002.pem'), KEYS.ES256());
  writeFileSync(join(folder, '0003.pem'), leaked);
  t.match(await keys('list'), { stdout: / {2}0003\.pem = 0001\.pem {2}/ });
  t.match(await keys('retire', '0001.pem', '--force'), { code: 0, stdout: /0003\.pem, .*0001\.pem/ });
  t.strictSame(readdirSync(folder), ['0002.pem']);
});

test('keys add refuses to run beside an unreadable file: replicas might not load the new key', async (t) => {
  const { folder, keys } = await aWorld(t);
  mkdirSync(join(folder, '0001.pem'));
  await t.rejects(keys('add'), { name: 'KeyError', message: '0001.pem cannot be read (EISDIR)' });
  t.strictSame(readdirSync(folder), ['0001.pem']);
});

test('keys add and retire change nothing in a mounted Secret, and say what to change there', async (t) => {
  // The unprivileged user must be able to enter this folder; the project's own folder may be closed to it.
  const folder = testFolder(t);
  const { keys, serve } = await aWorld(t, folder);
  writeFileSync(join(folder, '0001.pem'), KEYS.ES256());
  await serve();
  await keys('add');
  for (const file of readdirSync(folder)) chmodSync(join(folder, file), 0o444);
  chmodSync(folder, 0o555);
  const retired = await withoutRoot(() => keys('retire', '0001.pem', '--force'));
  const added = await withoutRoot(() => keys('add'));
  chmodSync(folder, 0o755);
  t.match(added, { code: 1, stderr: /\(EACCES\): .* add a key to the Secret/ });
  t.match(retired, { code: 1, stderr: /remove 0001\.pem from the Secret/ });
  t.equal(readdirSync(folder).length, 2);
});

test('keys answers bad usage with 2 and a failure with 1', async (t) => {
  const { folder, keys } = await aWorld(t);
  for (const args of [
    [],
    ['retire'],
    ['list', 'x'],
    ['add', 'x'],
    ['add', '--alg', 'HS256'],
    ['retire', 'a', 'b'],
  ])
    t.match(await keys(...args), { code: 2, stderr: /Usage/ }, args.join(' '));
  t.match(await keys('list'), { code: 0, stdout: /no keys in/ });
  t.match(await keys('retire', 'none'), { code: 1, stderr: /no such key/ });
  writeFileSync(join(folder, '0001.pem'), 'not a key');
  await t.rejects(keys('list'), { name: 'KeyError', message: /0001\.pem is not/ });
  t.match(await latchkey(['keys', 'list'], { NODE_ENV: 'production' }), {
    code: 1,
    stderr: /DATABASE_URL is required/,
  });
  t.match(await latchkey(['keys', 'add', '--alg', 'HS256']), { code: 2, stderr: /Usage/ });
  t.match(await latchkey(['keys', 'add'], { SIGNING_KEYS_DIR_FILE: join(folder, 'none') }), {
    code: 1,
    stderr: /SIGNING_KEYS_DIR_FILE cannot be read \(ENOENT\)/,
  });
});

test('good long-lived tokens are counted page by page, by their signing key', async (t) => {
  const { url } = await testDatabase(t);
  await sql(
    url,
    "INSERT INTO users (username, username_skeleton, email, name, password_hash) VALUES ('ada', 'ada', 'a@b', 'Ada', '')",
  );
  await sql(
    url,
    `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, kid, expires_at)
     SELECT 1, (CASE WHEN n % 5 = 0 THEN 'session' ELSE 'llt' END)::token_type, 'x', to_timestamp(n),
       CASE WHEN n % 7 = 0 THEN now() END, CASE n % 3 WHEN 0 THEN 'a' ELSE 'b' END,
       CASE WHEN n % 11 = 0 THEN now() - interval '1 second' WHEN n % 2 = 0 THEN now() + interval '1 hour' END
     FROM generate_series(1, 100) AS n`,
  );
  const postgres = openPostgres(t, { url });
  const good = Array.from({ length: 100 }, (_, i) => i + 1).filter((n) =>
    [5, 7, 11].every((of) => n % of !== 0),
  );
  const byFirst = good.filter((n) => n % 3 === 0).length;
  const expected = new Map([
    ['a', byFirst],
    ['b', good.length - byFirst],
  ]);
  for (const page of [1, 7, 100, 1000]) t.same(await countLongLived(postgres.prisma, page), expected);
});
