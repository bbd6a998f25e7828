// suite: e2e
import { pbkdf2Sync } from 'node:crypto';
import { test, type Test } from 'tap';
import { makeUserStore } from '../../../src/infra/postgres/user-store.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { makeScryptHasher } from '../../../src/infra/crypto/scrypt-hasher.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, logIn, signUp } from '../../support/client.ts';
import { latchkey } from '../../support/latchkey.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase } from '../../support/postgres.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { disableUser, sql } from '../../support/sql.ts';
import {
  cheapHashes,
  IMPORTED_PASSWORD,
  LONG_TWIN,
  SHORT_TWIN,
  usersFile,
} from '../../support/users-file.ts';

const ENV = { HASH_MEMORY: '21' };
const COST = { logN: 4, r: 8, p: 1 };

/** A database with the accounts `bcrypt`, `argon2` and `pbkdf2` of another system. */
async function imported(t: Test, others: Record<string, string> = {}): Promise<string> {
  return importedFrom(t, {
    ...(await cheapHashes()),
    pbkdf2: '$pbkdf2-sha256$1000$c2FsdA$' + 'A'.repeat(43),
    ...others,
  });
}

/** @param hashes by username. */
async function importedFrom(t: Test, hashes: Record<string, unknown>): Promise<string> {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(
    t,
    Object.entries(hashes).map(([username, password_hash]) => ({
      username,
      name: 'Ada',
      email: `${username}@example.com`,
      password_hash,
    })),
  );
  const { code, stderr } = await latchkey(['user', 'import', file], {
    DATABASE_URL,
    SCRYPT_LOG_N: '4',
    ...ENV,
  });
  t.equal(code, 0, stderr);
  return DATABASE_URL;
}

interface Row extends Record<string, unknown> {
  password_hash: Buffer;
  imported_hash: string | null;
  imported_cost: string | null;
}

async function rowOf(databaseUrl: string, username: string): Promise<Row> {
  const [row] = await sql<Row>(databaseUrl, 'SELECT * FROM users WHERE username = $1', [username]);
  if (!row) throw new Error('no such user');
  return row;
}

test('an imported account logs in with its old password, and then has a hash of ours', async (t) => {
  const target = await buildTestApp(t, { databaseUrl: await imported(t), env: ENV });
  const { databaseUrl } = target;
  for (const username of ['bcrypt', 'argon2']) {
    const payload = { username, password: 'wrong' };
    refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
    t.ok((await rowOf(databaseUrl, username)).imported_hash, 'a wrong password changes nothing');

    t.equal((await logIn(target, `${username}@example.com`, IMPORTED_PASSWORD)).user.username, username);
    const row = await rowOf(databaseUrl, username);
    t.match(row, { imported_hash: null, imported_cost: null });
    t.equal(await makeScryptHasher(COST).verify(row.password_hash, IMPORTED_PASSWORD), true);
    await logIn(target, username, IMPORTED_PASSWORD);
    refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
    t.strictSame((await rowOf(databaseUrl, username)).password_hash, row.password_hash, 'hashed anew once');
  }
});

test('a login with one of the passwords that an imported hash accepts leaves the others good', async (t) => {
  const at72 = 'x'.repeat(72);
  const key = pbkdf2Sync(LONG_TWIN, 'salt', 1000, 20, 'sha1').toString('base64').replace('=', '');
  const hashes = {
    bcrypt: (await cheapHashes(at72)).bcrypt,
    pbkdf2: `$pbkdf2$1000$c2FsdA$${key.replaceAll('+', '.')}`,
  };
  const target = await buildTestApp(t, { databaseUrl: await importedFrom(t, hashes), env: ENV });
  for (const password of [at72, `${at72}, which bcrypt does not read`, at72])
    t.equal((await logIn(target, 'bcrypt', password)).user.username, 'bcrypt');
  for (const password of [LONG_TWIN, SHORT_TWIN])
    t.equal((await logIn(target, 'pbkdf2', password)).user.username, 'pbkdf2');
});

test('a password that was hashed in another Unicode form logs in at a later try', async (t) => {
  const [sent, nfc, nfkc] = ['zoe\u0308 \ufb01', 'zo\u00eb \ufb01', 'zo\u00eb fi'];
  const hashes = Object.fromEntries(
    await Promise.all(
      [sent, nfc, nfkc].map(
        async (form, place) => [`form${place}`, (await cheapHashes(form)).bcrypt] as const,
      ),
    ),
  );
  const target = await buildTestApp(t, {
    databaseUrl: await importedFrom(t, hashes),
    env: { ...ENV, RATE_LIMIT_ACCOUNT: '10/900' },
  });
  for (const place of [0, 1, 2]) {
    const payload = { username: `form${place}`, password: sent };
    for (let wrong = 0; wrong < place; wrong++)
      refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
    t.equal((await logIn(target, payload.username, sent)).user.username, payload.username);
    t.equal((await logIn(target, payload.username, nfc)).user.username, payload.username, 'ours takes both');
  }
});

test('an account without a password is opened by a reset only', async (t) => {
  const databaseUrl = await importedFrom(t, {
    none: null,
    unusable: '!kAVi5UqI3WqfTZBOQLaLMeZK8MBKoQv6rNrWtEjQ',
  });
  const target = await buildTestApp(t, { databaseUrl, env: ENV });
  for (const username of ['none', 'unusable']) {
    for (const password of ['null', '!', 'difference engine'])
      refused(
        t,
        await call(target, 'POST /api/auth', { payload: { username, password } }),
        401,
        'invalid_credentials',
      );
    const reset = await latchkey(['user', 'reset', username, '--json'], { DATABASE_URL: databaseUrl });
    const { reset_token } = JSON.parse(reset.stdout) as { reset_token: string };
    const payload = { reset_token, password: 'analytical machinery' };
    t.equal((await call(target, 'POST /api/auth/password-reset', { payload })).statusCode, 200);
    t.equal((await logIn(target, username, payload.password)).user.username, username);
  }
});

test('a failed login does the same work, whosever the name is and whatever the other system makes of the password', async (t) => {
  const wordpress = `$wp${(await cheapHashes()).bcrypt}`;
  const phpbb = `$H$5saltsalt${'A'.repeat(22)}`;
  const target = await buildTestApp(t, { databaseUrl: await imported(t, { wordpress, phpbb }), env: ENV });
  const own = anAccount();
  await signUp(target, own);
  await disableUser(target.databaseUrl, 'argon2');
  const work = async (username: string, password: string) => {
    let threads = 0;
    const note = () => {
      threads++;
    };
    process.on('worker', note);
    const steps = await workDone(t, async () => {
      const payload = { username, password };
      refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
    });
    process.off('worker', note);
    return { threads, scrypt: steps.filter((step) => step.includes('hash of')) };
  };
  const expected = { threads: 3, scrypt: ['verify a hash of 4/8/1'] };
  t.match(
    target.log(),
    /"costs":\["scrypt 4\/8\/1","(bcrypt 4|argon2id 256\/1\/1|pbkdf2-sha256 1000|phpass 7)",/,
  );
  // The second one has four texts in some formats, and others in the rest.
  for (const password of ['wrong', ` it's "wrong" & pa\u0308ss\ufb01 `])
    for (const username of ['unknown-user', own.username, 'bcrypt', 'argon2', 'pbkdf2', 'wordpress', 'phpbb'])
      t.strictSame(await work(username, password), expected, `${username}, ${password}`);
  t.strictSame(await work('argon2', IMPORTED_PASSWORD), expected, 'disabled, with the right password');
});

test('a write to password_hash ends the imported hash, also one that leaves its column alone', async (t) => {
  const target = await buildTestApp(t, { databaseUrl: await imported(t), env: ENV });
  const renewed = await makeScryptHasher(COST).hash('a new password');
  await sql(target.databaseUrl, "UPDATE users SET password_hash = $1 WHERE username = 'bcrypt'", [renewed]);
  t.ok((await rowOf(target.databaseUrl, 'bcrypt')).imported_hash, 'it is still in the row');
  const payload = { username: 'bcrypt', password: IMPORTED_PASSWORD };
  refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
  t.equal((await logIn(target, 'bcrypt', 'a new password')).user.username, 'bcrypt');
});

test('a hash is replaced only if it is the one that was read', async (t) => {
  const databaseUrl = await imported(t);
  const postgres = openPostgres(t, { url: databaseUrl });
  const users = makeUserStore(postgres);
  const found = await users.findForLogin({ username: 'bcrypt' });
  t.ok(found);
  const read = found?.passwordHash ?? new Uint8Array();
  const userId = found?.user.id ?? 0;
  t.match(Buffer.from(read).toString(), /^\$2a\$04\$/);
  const hasher = makePasswordHasher(COST);
  const [first, second] = [await hasher.hash('one'), await hasher.hash('two')];
  // Two logins at once, and a change of password between the read and the write of one.
  await users.replaceHash(userId, read, first);
  await users.replaceHash(userId, read, second);
  const row = await rowOf(databaseUrl, 'bcrypt');
  t.strictSame(row.password_hash, Buffer.from(first));
  t.equal(row.imported_hash, null);
  await users.replaceHash(userId, first, second);
  t.strictSame((await rowOf(databaseUrl, 'bcrypt')).password_hash, Buffer.from(second));
});

test('the walk through the stored hashes finds a sample of each imported cost', async (t) => {
  const databaseUrl = await imported(t);
  const postgres = openPostgres(t, { url: databaseUrl });
  const hasher = makePasswordHasher(COST, 21 * 1024 ** 2);
  const samples = await makeUserStore(postgres).sampleHashes(0, 100);
  const costs = samples.map(({ passwordHash }) => hasher.costOf(passwordHash)).sort();
  t.strictSame(costs, ['argon2id 256/1/1', 'bcrypt 4', 'pbkdf2-sha256 1000']);
});
