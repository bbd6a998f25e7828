import { once } from 'node:events';
import pg from 'pg';
import { test, type Test } from 'tap';
import { makeScryptHasher } from '../../src/infra/crypto/scrypt-hasher.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, signUp } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { readSeedArguments } from './run-seed.ts';
import { seedUsers } from './seed.ts';
import { listSeeded, PASSWORD, seededAccount } from './seeded-accounts.ts';

const HASHER = makeScryptHasher({ logN: 4, r: 8, p: 1 });

async function aDatabase(t: Test) {
  const { url } = await testDatabase(t);
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  // `end` resolves before the connection has closed. The drop of the database would cut it, and no one hears that error.
  const closed = once(pool, 'remove');
  t.teardown(async () => {
    await pool.end();
    await closed;
  });
  const hash = await HASHER.hash(PASSWORD);
  const done: number[] = [];
  const seed = (users: number) => seedUsers(pool, { users, hash, progress: (count) => done.push(count) });
  return { url, pool, seed, done };
}

test('seed needs a number of users, and no service', (t) => {
  t.throws(() => readSeedArguments([]), /--users/);
  t.throws(() => readSeedArguments(['--users', '5', '--url', 'http://localhost']), /--url/);
  t.match(listSeeded(2), { list: [seededAccount(0), seededAccount(1)], hint: 'load -- seed --users N' });
  t.end();
});

test('seeds users who can log in, and a repeat adds only those that are missing', async (t) => {
  const { url, pool, seed, done } = await aDatabase(t);
  t.equal(await seed(5001), 5001);
  t.strictSame(done, [5000, 5001]);
  t.equal(await seed(5003), 2);
  t.equal((await pool.query('SELECT 1 FROM users')).rowCount, 5003);
  const target = await buildTestApp(t, { databaseUrl: url });
  for (const i of [0, 5002]) {
    const { username, email } = seededAccount(i);
    for (const name of [username, email]) {
      const payload = { username: name, password: PASSWORD };
      t.equal((await call(target, 'POST /api/auth', { payload })).statusCode, 200, name);
    }
  }
});

test('accepts users who signed up in an earlier load run, and refuses all others', async (t) => {
  const { url, seed, pool } = await aDatabase(t);
  const target = await buildTestApp(t, { databaseUrl: url });
  await signUp(target, seededAccount(7));
  t.equal(await seed(10), 9);
  await signUp(target, anAccount());
  await t.rejects(seed(20), { name: 'LoadError', message: /users other than those of the load test/ });
  t.equal((await pool.query('SELECT 1 FROM users')).rowCount, 11, 'nothing was added');
});
