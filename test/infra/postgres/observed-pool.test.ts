import pg from 'pg';
import { test, type Test } from 'tap';
import { failureOf, statementOf, type ObservePostgres } from '../../../src/infra/postgres/observed-pool.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';

/** A pool of one connection, and its reports. */
async function observed(t: Test, options: { url?: string; timeout?: number } = {}) {
  const seen: string[] = [];
  const observe: ObservePostgres = {
    statementAnswered: (statement, seconds) => seen.push(`${statement} ${seconds > 0 && seconds < 60}`),
    connectionAcquired: (seconds) => seen.push(`acquired ${seconds > 0 && seconds < 60}`),
    postgresFailed: (reason) => seen.push(`failed: ${reason}`),
  };
  const url = options.url ?? (await testDatabase(t)).url;
  const postgres = openPostgres(t, { url, timeout: options.timeout ?? 5000, observe });
  const taken = () => seen.splice(0);
  return { ...postgres, url, taken };
}

test('reports each statement by its first word, and each wait for a connection', async (t) => {
  const { prisma, pool, taken } = await observed(t);
  await pool.query('SELECT 1');
  t.strictSame(taken(), ['acquired true', 'select true']);
  await prisma.$transaction(async (tx) => {
    await tx.$executeRaw`INSERT INTO users (username, username_skeleton, email, name, password_hash) VALUES ('a', 'a', 'b', 'c', '')`;
    await tx.$executeRaw`WITH x AS (SELECT 1) UPDATE users SET name = 'd'`;
    await tx.$executeRaw`DELETE FROM users`;
  });
  t.strictSame(taken(), [
    'acquired true',
    'transaction true',
    'insert true',
    'with true',
    'delete true',
    'transaction true',
  ]);
});

test('reports the reason of a failed statement', async (t) => {
  const { pool, url, taken } = await observed(t, { timeout: 2000 });
  await t.rejects(pool.query('SELECT nothing'));
  t.strictSame(taken().slice(-1), ['failed: other']);
  await t.rejects(pool.query("SET statement_timeout = '10ms'; SELECT pg_sleep(5)"));
  t.strictSame(taken().slice(-1), ['failed: timeout'], 'cancelled by PostgreSQL');
  await pool.query('SET statement_timeout = 0');
  taken();
  await t.rejects(pool.query('SELECT pg_sleep(30)'));
  t.strictSame(taken().slice(-1), ['failed: timeout'], 'cancelled by the client');

  const held = await pool.connect();
  held.on('error', () => undefined);
  taken();
  await t.rejects(pool.connect());
  t.strictSame(taken(), ['failed: connect'], 'the pool has no other');
  const { rows } = await held.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  taken();
  const cut = held.query('SELECT pg_sleep(5)');
  await Promise.all([
    t.rejects(cut),
    withClient(url, (other) => other.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid])),
  ]);
  t.match(taken(), ['failed: connection']);
  held.release(true);
});

test('a connection that ends before its user listens does not end the process', async (t) => {
  const { pool, url } = await observed(t);
  const held = await pool.connect();
  const { rows } = await held.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
  const ended = new Promise((resolve) => held.once('end', resolve));
  await withClient(url, (other) => other.query('SELECT pg_terminate_backend($1)', [rows[0]?.pid]));
  await ended;
  await t.rejects(held.query('SELECT 1'), { message: /not queryable/ });
  held.release();
  await t.resolves(pool.query('SELECT 1'), 'the pool replaces it');
});

test('reports an unreachable database', async (t) => {
  const { pool, taken } = await observed(t, { url: 'postgres://unknown@127.0.0.1:1/none' });
  await t.rejects(pool.query('SELECT 1'));
  t.strictSame(taken(), ['failed: connect']);
});

test('names statements', (t) => {
  t.equal(statementOf('  select 1'), 'select');
  t.equal(statementOf({ text: 'UPDATE users SET x = 1' }), 'update');
  t.equal(statementOf('COMMIT'), 'transaction');
  t.equal(statementOf('SET TIME ZONE'), 'other');
  t.equal(statementOf('-- SELECT'), 'other');
  t.equal(statementOf(undefined), 'other');
  t.end();
});

const FAILURES: [string, ReturnType<typeof failureOf>][] = [
  ['23505', null],
  ['57014', 'timeout'],
  ['55P03', 'timeout'],
  ['40P01', 'conflict'],
  ['40001', 'conflict'],
  ['53300', 'resources'],
  ['58030', 'resources'],
  ['57P01', 'connection'],
  ['08006', 'connection'],
  ['25006', 'connection'],
  ['ECONNRESET', 'connection'],
  ['42P01', 'other'],
];

test('names failures', (t) => {
  for (const [code, failure] of FAILURES) {
    t.equal(failureOf(Object.assign(new Error('x'), { code })), failure, code);
  }
  t.equal(failureOf(new Error('Connection terminated unexpectedly')), 'connection');
  t.equal(failureOf(new pg.DatabaseError('x', 1, 'error')), 'other');
  t.end();
});
