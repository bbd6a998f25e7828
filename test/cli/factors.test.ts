import { randomBytes } from 'node:crypto';
import { test, type Test } from 'tap';
import { checkDatabase } from '../../src/doctor/database.ts';
import { toBase32 } from '../../src/domain/factors/totp.ts';
import { makeSecretBox, parseFactorKeys } from '../../src/infra/crypto/factor-keys.ts';
import { makeFactorStore } from '../../src/infra/postgres/factor-store.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, createLongLived, logIn, signUp, verify } from '../support/client.ts';
import { aConfig, byCheck } from '../support/doctor.ts';
import { aFactor, anApp, loginTokenOf, secondStep } from '../support/factors.ts';
import { latchkey } from '../support/latchkey.ts';
import { openPostgres } from '../support/open-postgres.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';
import { cheapHashes, IMPORTED_PASSWORD, usersFile, type UserLine } from '../support/users-file.ts';

const { bcrypt } = await cheapHashes();
const [OLD, NEW, OTHER] = [1, 2, 3].map((byte) => Buffer.alloc(32, byte).toString('base64url')) as [
  string,
  string,
  string,
];

function aLine(username: string, totp_secret: unknown): UserLine {
  return { username, name: 'Ada', email: `${username}@example.com`, password_hash: bcrypt, totp_secret };
}

/** Imports accounts with secrets under OLD. @returns what reads the secret of each with the given keys alone */
async function withSecrets(t: Test, secrets: readonly Buffer[]) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(
    t,
    secrets.map((secret, i) => aLine(`user${i}`, toBase32(secret))),
  );
  const imported = await latchkey(['user', 'import', file], { DATABASE_URL, FACTOR_KEYS: OLD });
  t.equal(imported.code, 0, imported.stderr);
  const postgres = openPostgres(t, { url: DATABASE_URL });
  const store = makeFactorStore(postgres);
  const users = await sql<{ id: string }>(DATABASE_URL, 'SELECT id FROM users ORDER BY id');
  const read = (keys: string) =>
    Promise.all(
      users.map(async ({ id }) => {
        const account = await store.findAccount(Number(id));
        const totp = account?.totp;
        return totp && makeSecretBox(parseFactorKeys(keys)).open(Number(id), totp.sealed);
      }),
    );
  const rekey = (FACTOR_KEYS?: string) =>
    latchkey(['factors', 'rekey', '--json'], { DATABASE_URL, ...(FACTOR_KEYS && { FACTOR_KEYS }) });
  return { DATABASE_URL, read, rekey };
}

test('factors rekey moves every secret to the first key, and a lost key is found before that', async (t) => {
  const secrets = [1, 2, 3].map(() => randomBytes(20));
  const { DATABASE_URL, read, rekey } = await withSecrets(t, secrets);
  const keysOf = async (FACTOR_KEYS?: string) => {
    const config = aConfig({ DATABASE_URL, ...(FACTOR_KEYS && { FACTOR_KEYS }) });
    return byCheck(await checkDatabase(config))['factor keys'];
  };
  t.match(await keysOf(OLD), [{ state: 'ok', found: /all 3 secrets/ }]);
  for (const keys of [undefined, NEW])
    t.match(await keysOf(keys), [
      { state: 'fail', found: /^3 of 3 secrets need [\w-]{16},/, todo: /runbook/ },
    ]);
  t.match(await keysOf(`${NEW},${OLD}`), [{ state: 'warn', todo: /latchkey factors rekey/ }]);

  t.match(await rekey(), { code: 1, stderr: /FACTOR_KEYS/ });
  t.match(await rekey(Buffer.alloc(30, 1).toString('base64url')), {
    code: 1,
    stderr: /FACTOR_KEYS.*key 1 has 30 bytes, not 32/,
  });
  t.match(await rekey(OTHER), { code: 1, stdout: '{"moved":0,"left":3}\n' });
  t.strictSame(await read(OLD), secrets, 'nothing was lost');

  const moved = await rekey(`${NEW},${OLD}`);
  t.match(moved, { code: 0, stdout: '{"moved":3,"left":0}\n' });
  t.match(moved.audit, [{ event: 'factors.rekey', outcome: 'success', details: { moved: 3, left: 0 } }]);
  t.strictSame(await read(NEW), secrets, 'the old key is needed no more');
  t.match(await keysOf(NEW), [{ state: 'ok' }]);
  t.match(await rekey(NEW), { code: 0, stdout: '{"moved":0,"left":0}\n' });
});

test('factors rekey leaves what it cannot read, and says so', async (t) => {
  const secrets = [1, 2].map(() => randomBytes(20));
  const { DATABASE_URL, read, rekey } = await withSecrets(t, secrets);
  // Bound to its user, a copied secret opens nothing.
  await sql(DATABASE_URL, 'UPDATE factors SET secret = (SELECT secret FROM factors ORDER BY id LIMIT 1)');
  t.match(await rekey(`${NEW},${OLD}`), { code: 1, stdout: '{"moved":1,"left":1}\n' });
  await sql(DATABASE_URL, 'DELETE FROM factors WHERE id = (SELECT max(id) FROM factors)');
  t.strictSame(await read(NEW), [secrets[0], null]);
});

test('user import takes the secrets of authenticator apps, and refuses what is none by its line', async (t) => {
  const target = await buildTestApp(t, { env: { FACTOR_KEYS: OLD, HASH_MEMORY: '21' } });
  const { databaseUrl: DATABASE_URL } = target;
  // The shortest, as older libraries make it.
  const secret = randomBytes(10);
  const spelled = toBase32(secret).toLowerCase().replace(/.{4}/g, '$& ');
  const bad = [
    toBase32(randomBytes(9)),
    'a'.repeat(30) + '1',
    'ä'.repeat(30),
    '',
    7,
    toBase32(randomBytes(65)),
  ];
  const file = usersFile(t, [
    aLine('none', null),
    ...bad.map((each, i) => aLine(`bad${i}`, each)),
    aLine('ada', spelled),
  ]);
  const without = await latchkey(['user', 'import', file, '--json'], { DATABASE_URL });
  t.match(without, { code: 1, stdout: '{"imported":1,"refused":7,"skipped":0}\n' });
  t.match(without.stderr, /"line":8,"error":"totp_secret needs the service's FACTOR_KEYS/);
  t.strictSame(await sql(DATABASE_URL, 'SELECT username FROM users'), [{ username: 'none' }]);

  const { code, stderr, stdout } = await latchkey(['user', 'import', file], {
    DATABASE_URL,
    FACTOR_KEYS: OLD,
  });
  t.match({ code, stdout }, { code: 1, stdout: 'imported 1, refused 6, skipped 1\n' });
  for (const line of [2, 3, 4, 5, 6, 7]) t.match(stderr, new RegExp(`^line ${line}: totp_secret must `, 'm'));
  for (const value of [...bad, spelled])
    if (value !== '' && value !== 7) t.notOk(stderr.includes(String(value)));
  const payload = { username: 'ada', password: IMPORTED_PASSWORD };
  const asked = await call(target, 'POST /api/auth', { payload });
  t.match(asked.json(), { code: 'second_factor_required', methods: ['totp'] });
  const login = { login_token: loginTokenOf(asked), code: anApp(toBase32(secret))() };
  t.equal((await secondStep(target, login)).statusCode, 200, 'the app of the other system goes on');

  const exported = await latchkey(['user', 'export'], { DATABASE_URL });
  t.match(exported.stdout, '"username":"ada"');
  t.notMatch(exported.stdout, 'totp_secret');
});

test('user factors lists, and removes all factors with all tokens', async (t) => {
  const target = await buildTestApp(t);
  target.composition.start();
  const { databaseUrl: DATABASE_URL } = target;
  const run = (...words: string[]) =>
    latchkey(['user', 'factors', ...words], { DATABASE_URL, NOTICES: 'true' });
  const account = anAccount();
  const pair = await signUp(target, account);
  await sql(DATABASE_URL, 'UPDATE users SET email_verified_at = now()');
  const { access_token: token, user } = pair;
  const { longlived_token: llt } = await createLongLived(target, token);
  t.match(await run(account.username), { code: 0, stdout: 'no second factor\n' });
  const factor = await aFactor(target, pair);

  const listed = await run(account.email, '--json');
  const time = /^2\d{3}-.*Z$/;
  t.match(JSON.parse(listed.stdout), {
    user: user.id,
    factors: [
      { id: factor.id, type: 'totp', name: 'Authenticator app', created_at: time, last_used_at: null },
    ],
    recovery_codes_left: 10,
  });
  t.match(listed.audit, [{ event: 'user.factors', outcome: 'success', subject: { user_id: user.id } }]);
  const { stdout } = await run('--id', String(user.id));
  t.match(
    stdout,
    /^\d+ {2}totp {2}"Authenticator app" {2}created 2\S+Z {2}last used never\n10 recovery codes left\n$/,
  );
  t.match(await run(account.username, '--remove'), { code: 2, stderr: /give --yes/ });
  t.equal((await verify(target, token)).statusCode, 200, 'nothing has changed');

  const removed = await run(account.username, '--remove', '--yes', '--json');
  t.strictSame(JSON.parse(removed.stdout), { user: user.id, ended: 2, done: true, removed: 1 });
  const details = { removed: 1, ended: 2, done: true };
  t.match(removed.audit, [
    { event: 'user.factors_removed', severity: 'warn', subject: { user_id: user.id }, details },
  ]);
  for (const each of [token, llt]) t.equal((await verify(target, each)).statusCode, 401);
  t.match(await sql(DATABASE_URL, 'SELECT event, address FROM wanted_mails'), [
    { event: 'factor_removed', address: account.email },
  ]);
  t.ok(await logIn(target, account.username), 'by the password alone');
  t.match(await run('unknown', '--remove', '--yes'), { code: 1, stderr: /there is no such user/ });
  t.match(await latchkey(['user', 'show', account.username, '--remove'], { DATABASE_URL }), { code: 2 });
});
