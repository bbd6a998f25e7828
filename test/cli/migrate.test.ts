import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { prismaLock } from '../../src/infra/postgres/migration-session.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { freePort } from '../support/free-port.ts';
import { bareEnvironment } from '../support/environment.ts';
import { until } from '../support/until.ts';

const CLI = new URL('../../src/cli.js', import.meta.url).pathname;

/** A running `latchkey migrate`. */
function migrating(t: Test, DATABASE_URL: string) {
  const child = spawn(process.execPath, [CLI, 'migrate'], {
    env: bareEnvironment({ DATABASE_URL, AUDIT_LOG: 'none' }),
  });
  const said = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said.stderr += chunk.toString()));
  const closed = once(child, 'close') as Promise<[number | null]>;
  t.teardown(() => child.kill('SIGKILL'));
  return { child, said, code: async () => (await closed)[0] };
}

/** Resolves once a connection to the database meets the condition. */
function seen(url: string, condition: string): Promise<void> {
  const query = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND ${condition}`;
  return withClient(url, (client) => until(async () => (await client.query(query)).rowCount !== 0));
}

test('in production a command starts no embedded database, whatever stands around the value', async (t) => {
  for (const NODE_ENV of ['production', ' production\r\n', '\ufeffproduction'])
    t.match(await latchkey(['migrate'], { NODE_ENV, DATABASE_URL: ' \n' }), {
      code: 1,
      stderr: /DATABASE_URL is required in production/,
    });
});

test('a signal lets a running migration finish', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const { code, said } = await withClient(url, async (client) => {
    // The migration waits here for the lock on this name.
    await client.query('BEGIN; CREATE TABLE "tokens" (id int)');
    const run = migrating(t, url);
    await seen(url, `wait_event_type = 'Lock'`);
    run.child.kill('SIGTERM');
    run.child.kill('SIGTERM');
    await sleep(500);
    t.equal(run.child.exitCode, null, 'the migration still runs');
    await client.query('ROLLBACK');
    return { code: await run.code(), said: run.said };
  });
  t.match({ code, ...said }, { code: 0, stdout: /^applied \d+_init\n/ });
  t.match(await latchkey(['migrate'], { DATABASE_URL: url }), { code: 0, stdout: 'nothing to apply\n' });
});

test('a migrate that waits for another process ends on a signal and leaves nothing behind', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  for (const [signal, expected] of [
    ['SIGTERM', 143],
    ['SIGINT', 130],
  ] as const) {
    await withClient(url, async (client) => {
      await client.query(`SELECT pg_advisory_lock(${prismaLock})`);
      const run = migrating(t, url);
      await seen(url, `query IN ('SELECT pg_try_advisory_xact_lock(${prismaLock}) AS locked', 'ROLLBACK')`);
      run.child.kill(signal);
      t.equal(await run.code(), expected);
      t.match(run.said, { stdout: '', stderr: /nothing was applied/ });
    });
  }
  t.match(await latchkey(['migrate'], { DATABASE_URL: url }), { code: 0, stdout: /^applied / });
});

test('migrate waits for a database that starts late', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const there = new URL(url);
  const late = new URL(url);
  late.hostname = '127.0.0.1';
  late.port = String(await freePort());
  const run = migrating(t, late.href);
  await until(() => run.said.stderr !== '');
  t.match(run.said.stderr, /^waiting: cannot connect to the database .*ECONNREFUSED.*\n$/);

  let turnedAway = 0;
  const server = net.createServer((socket) => {
    // A starting server answers like this.
    if (turnedAway++ === 0) {
      socket.once('data', () => socket.end(startingUp()));
      return;
    }
    const onwards = net.connect(Number(there.port || 5432), there.hostname);
    socket.pipe(onwards).pipe(socket);
    for (const each of [socket, onwards]) each.on('error', () => socket.destroy());
  });
  t.teardown(() => server.close());
  await once(server.listen(Number(late.port), '127.0.0.1'), 'listening');
  t.equal(await run.code(), 0);
  t.match(run.said, { stdout: /^applied /, stderr: /the database system is starting up/ });
});

test('a migrate that waits for a database ends on a signal, and after --wait', async (t) => {
  const DATABASE_URL = `postgres://unknown@127.0.0.1:${await freePort()}/none`;
  const run = migrating(t, DATABASE_URL);
  await until(() => run.said.stderr !== '');
  run.child.kill('SIGTERM');
  t.equal(await run.code(), 143);
  const given = await latchkey(['migrate', '--wait', '1'], { DATABASE_URL });
  t.match(given, { code: 1, stderr: /^waiting: .*\ncannot connect/ });
  t.equal((await latchkey(['migrate', '--wait', 'long'], { DATABASE_URL })).code, 2);
});

test('migrate does not wait for a database that refuses the connection', async (t) => {
  const { url } = await testDatabase(t);
  for (const DATABASE_URL of [
    url.replace(/\/[^/]+$/, '/no_such_database'),
    url.replace(/\/\/.*@/, '//no_such_role:sesame@'),
  ]) {
    const { code, stderr } = await latchkey(['migrate'], { DATABASE_URL });
    t.equal(code, 1);
    t.match(stderr, /^cannot connect/);
  }
});

test('migrate warns about a file that changed after it was applied', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  await withClient(DATABASE_URL, (client) =>
    client.query(`UPDATE _prisma_migrations SET checksum = 'other' WHERE migration_name LIKE '%_init'`),
  );
  t.match(await latchkey(['migrate'], { DATABASE_URL }), {
    code: 0,
    stdout:
      /^nothing to apply\nwarning: the file of \d+_init has changed since it was applied to this database\n$/,
  });
  const { stdout } = await latchkey(['migrate', '--json'], { DATABASE_URL });
  t.match(JSON.parse(stdout), { applied: [], changed: [/_init$/] });
});

/** An ErrorResponse of the PostgreSQL protocol. */
function startingUp(): Buffer {
  const fields = Buffer.from('SFATAL\0C57P03\0Mthe database system is starting up\0\0');
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeUInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
