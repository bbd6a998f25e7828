import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { test, type Test } from 'tap';
import { ORDERED_BY_LIBRARY } from '../../src/infra/postgres/inspect.ts';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { anAccount } from '../support/client.ts';
import { bareEnvironment } from '../support/environment.ts';
import { buildFirstRelease } from './first-release.ts';
import { latchkey } from '../support/latchkey.ts';
import { listen } from '../support/listen.ts';
import { LAST_OF_FIRST, migrationsUntil } from '../support/migrations.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { launchOf, readyService } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { eventually, until } from '../support/until.ts';

const CLI = new URL('../../src/cli.js', import.meta.url).pathname;

/** The last file that only builds indexes, and the first that needs its table for itself. */
const LAST_INDEX = '20261126200400_known_device_index';
const SWAP = '20261126200500_users_collation';

/** What pg_dump holds until it has finished: a snapshot, and every table against changes of its columns. */
async function beginDump(t: Test, url: string): Promise<{ end: () => Promise<void> }> {
  const client = new pg.Client(url);
  await client.connect();
  t.teardown(() => client.end());
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY');
  await client.query('LOCK TABLE users, tokens, known_devices IN ACCESS SHARE MODE');
  await client.query('SELECT count(*) FROM users');
  return { end: async () => void (await client.query('COMMIT')) };
}

/** Reads and writes one user as a login does, until `stop`. @returns the longest time that it took, in milliseconds */
function watchLogins(t: Test, url: string) {
  let isOver = false;
  const times: number[] = [];
  const run = withClient(url, async (client) => {
    while (!isOver) {
      const since = performance.now();
      await client.query(`UPDATE users SET name = name WHERE username = 'user-1'`);
      times.push(performance.now() - since);
      await sleep(20);
    }
  });
  t.teardown(() => (isOver = true));
  return {
    stop: async () => {
      isOver = true;
      await run;
      return times;
    },
  };
}

const FILL = `INSERT INTO users (username, username_skeleton, email, name, password_hash)
  SELECT name, name, name || '@example.com', 'Ada', '' FROM (
    SELECT 'user-' || n || (ARRAY['', '-a', '_a', 'ä'])[1 + n % 4] AS name FROM generate_series(1, $1::int) AS n) AS names`;

function migrating(t: Test, DATABASE_URL: string, wait: string) {
  const child = spawn(process.execPath, [CLI, 'migrate', '--wait', wait], {
    env: bareEnvironment({ DATABASE_URL, AUDIT_LOG: 'none' }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  let stderr = '';
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const closed = once(child, 'close') as Promise<[number | null]>;
  t.teardown(() => child.kill('SIGKILL'));
  return { child, said: () => stderr, code: async () => (await closed)[0] };
}

test('`migrate` beside `pg_dump` waits for it, and leaves nothing for an operator to settle', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  await migrate(url, { folder: migrationsUntil(t, LAST_OF_FIRST) });
  await sql(url, FILL, [1000]);
  const logins = watchLogins(t, url);

  // An index waits for the snapshots that are older, and keeps nobody else waiting.
  const first = await beginDump(t, url);
  const indexes = migrate(url, { folder: migrationsUntil(t, LAST_INDEX) });
  const waiting = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'virtualxid' AND query LIKE '%CONCURRENTLY%'`;
  await withClient(url, (client) => until(async () => (await client.query(waiting)).rowCount !== 0));
  await first.end();
  t.equal((await indexes).applied.at(-1), LAST_INDEX);

  const second = await beginDump(t, url);
  const given = await latchkey(['migrate', '--wait', '0'], { DATABASE_URL: url });
  t.match(given, {
    code: 1,
    stderr: /^other transactions were in the way of the migration \S+: .*\(55P03\)/,
  });
  const stopped = migrating(t, url, '120');
  await until(() => stopped.said() !== '');
  stopped.child.kill('SIGTERM');
  t.equal(await stopped.code(), 143);
  t.match(stopped.said(), /\nstopped while waiting: nothing was applied\n$/);
  const run = migrating(t, url, '120');
  await until(() => run.said().split('\n').length > 2);
  for (const line of run.said().trim().split('\n'))
    t.match(line, new RegExp(`^waiting: other transactions .* ${SWAP}: .* \\(for \\d+ s more\\)$`));
  t.same(await sql(url, 'SELECT FROM _prisma_migrations WHERE finished_at IS NULL'), []);
  await second.end();
  t.equal(await run.code(), 0, run.said());
  t.match(await latchkey(['migrate'], { DATABASE_URL: url }), { code: 0, stdout: 'nothing to apply\n' });

  const times = await logins.stop();
  t.ok(Math.max(...times) < 3500, 'a login waits for one lock_timeout at most');
  t.ok(times.filter((time) => time < 500).length > 100, 'others pass between two attempts');
});

/** A proxy that cuts each connection when it sends COMMIT for the first time, and whether the server got it. */
async function cutAtCommit(t: Test, target: string, isPassedOn: boolean): Promise<string> {
  const { hostname, port } = new URL(target);
  let isCut = false;
  const server = net.createServer((client) => {
    const store = net.connect(Number(port || 5432), hostname);
    for (const each of [client, store]) each.on('error', () => undefined);
    client.on('close', () => store.destroy());
    store.on('close', () => client.destroy());
    let isLost = false;
    client.on('data', (chunk: Buffer) => {
      isLost = !isCut && chunk.includes('COMMIT\0');
      isCut ||= isLost;
      if (!isLost || isPassedOn) store.write(chunk);
      else client.destroy();
    });
    store.on('data', (chunk: Buffer) => {
      // The answer shows that the server has committed.
      if (isLost) client.destroy();
      else if (client.writable) client.write(chunk);
    });
  });
  const url = new URL(target);
  const own = new URL(await listen(t, server));
  [url.hostname, url.port] = [own.hostname, own.port];
  return url.href;
}

const HALF = '29990101000000_half';

/** The migrations, and one that cannot be applied twice. */
function withHalf(t: Test): string {
  const folder = migrationsUntil(t, HALF);
  mkdirSync(join(folder, HALF));
  writeFileSync(join(folder, HALF, 'migration.sql'), 'CREATE TABLE half (id int)');
  return folder;
}

test('a connection that is cut before and at COMMIT', async (t) => {
  const records = `SELECT finished_at IS NOT NULL AS finished, rolled_back_at AS "rolledBack"
    FROM _prisma_migrations WHERE migration_name = '${HALF}'`;
  for (const isPassedOn of [false, true]) {
    const { url } = await testDatabase(t);
    const told: string[] = [];
    const through = await cutAtCommit(t, url, isPassedOn);
    const options = { folder: withHalf(t), timeout: 60_000, onWait: (text: string) => told.push(text) };
    t.match(await migrate(through, options), { applied: [HALF], changed: [] });
    t.match(told, [new RegExp(`^the connection was lost during the migration ${HALF}`)]);
    t.same(await sql(url, records), [{ finished: true, rolledBack: null }]);
  }

  // The server has not ended the transaction yet, of whose COMMIT the answer was lost.
  const { url } = await testDatabase(t);
  await withClient(url, async (lost) => {
    await lost.query(`BEGIN; INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
      VALUES ('lost', '', '${HALF}', now()); CREATE TABLE half (id int)`);
    const run = migrate(url, { folder: withHalf(t), timeout: 60_000 });
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`;
    await withClient(url, (client) => until(async () => (await client.query(waiting)).rowCount !== 0));
    await lost.query('COMMIT');
    await run;
  });
  t.same(await sql(url, records), [{ finished: true, rolledBack: null }], 'it is not applied again');
});

/** Milliseconds for which an answer of 1.0.0 may wait: its DATABASE_TIMEOUT. */
const PATIENCE = 5000;

test('1.0.0 logs in and signs up while its indexes change their order', { timeout: 300_000 }, async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const [{ version } = { version: 0 }] = await sql<{ version: number }>(
    url,
    `SELECT current_setting('server_version_num')::int AS version`,
  );
  // Before 15, a database cannot be of ICU. The server's own order then does.
  const { url: DATABASE_URL } =
    version < 150_000 ? { url } : await testDatabase(t, { migrated: false, icu: true });
  await migrate(DATABASE_URL, { folder: migrationsUntil(t, LAST_OF_FIRST) });
  await sql(DATABASE_URL, FILL, [100_000]);
  await sql(DATABASE_URL, `INSERT INTO known_devices SELECT id, md5(id::text), now() FROM users`);
  await sql(DATABASE_URL, `INSERT INTO reserved_names SELECT md5(id::text), now() FROM users`);

  const release = buildFirstRelease(t);
  const replica = await readyService(t, { DATABASE_URL }, launchOf(join(release, 'dist/src/server.js')));
  const load = startAccounts(t, replica.url);
  await load.rounds(2);

  const files = (...names: string[]) =>
    sql(DATABASE_URL, `SELECT n, pg_relation_filenode(n::regclass) AS file FROM unnest($1::text[]) AS n`, [
      names,
    ]).then((rows) => rows.map(({ file }) => file as number));
  const tables = ['users', 'known_devices', 'reserved_names'];
  const before = await files(...tables);
  await migrate(DATABASE_URL, { folder: migrationsUntil(t, LAST_INDEX), timeout: 60_000 });
  await load.rounds(2);
  const built = await files(
    'users_username_c',
    'users_username_skeleton_c',
    'users_email_c',
    'known_devices_c',
    'reserved_names_c',
  );
  await migrate(DATABASE_URL, { timeout: 60_000 });
  await load.rounds(2);

  t.same(await files(...tables), before, 'no table is written again');
  t.same(
    await files(
      'users_username_key',
      'users_username_skeleton_key',
      'users_email_key',
      'known_devices_pkey',
      'reserved_names_pkey',
    ),
    built,
    'no index is built again',
  );
  t.same(await sql(DATABASE_URL, ORDERED_BY_LIBRARY), []);
  const known = `SELECT tablename || '.' || attname AS name FROM pg_stats
    WHERE (tablename, attname) IN (('users', 'username'), ('users', 'email'), ('known_devices', 'client')) ORDER BY 1`;
  t.same(
    (await sql(DATABASE_URL, known)).map(({ name }) => name as string),
    ['known_devices.client', 'users.email', 'users.username'],
    'the planner knows the columns again',
  );
  const { longest, wrong } = await load.stop();
  t.same(wrong.slice(0, 5), []);
  t.ok(longest < PATIENCE, `the longest answer took ${Math.round(longest)} ms`);
});

/** Signs accounts up and in, each twice at once, until it is stopped. */
function startAccounts(t: Test, url: string) {
  let [count, isOver, longest] = [0, false, 0];
  const wrong: string[] = [];
  const ask = async (path: string, body: object) => {
    const since = performance.now();
    const response = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    await response.body?.cancel();
    longest = Math.max(longest, performance.now() - since);
    return response.status;
  };
  const expect = async (what: string, asked: Promise<number>[], expected: number[]) => {
    const statuses = (await Promise.all(asked)).sort((one, other) => one - other);
    if (statuses.join() !== expected.join()) wrong.push(`${what}: ${statuses.join()}`);
  };
  const work = async () => {
    while (!isOver) {
      const account = anAccount();
      const { username, password } = account;
      const signUp = () => ask('/api/auth/signup', account);
      const logIn = (name: string) => ask('/api/auth', { username: name, password });
      await expect('two signups at once', [signUp(), signUp()], [200, 400]);
      const other = { ...anAccount(), email: account.email };
      await expect('a taken address', [ask('/api/auth/signup', other)], [400]);
      await expect('logins', [logIn(username), logIn(username), logIn(account.email)], [200, 200, 200]);
      count += 1;
    }
  };
  const workers = [1, 2].map(() => work().catch((error: unknown) => void wrong.push(String(error))));
  const stop = async () => {
    isOver = true;
    await Promise.all(workers);
    return { longest, wrong };
  };
  t.teardown(stop);
  return {
    stop,
    rounds: async (more: number) => {
      const aim = count + more;
      await eventually(60, () =>
        Promise.resolve(count >= aim || wrong.length > 0 ? null : `${count} rounds`),
      );
    },
  };
}
