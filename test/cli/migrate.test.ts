import { spawn } from 'node:child_process';
import { once } from 'node:events';
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { test, type Test } from 'tap';
import { prismaLock } from '../../src/infra/postgres/migration-lock.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { freePort } from '../support/redis-server.ts';
import { bareEnvironment } from '../support/service.ts';
import { until } from '../support/until.ts';

const CLI = new URL('../../src/cli.js', import.meta.url).pathname;

/** `latchkey migrate`, at work. */
function migrating(t: Test, DATABASE_URL: string) {
  const child = spawn(process.execPath, [CLI, 'migrate'], { env: bareEnvironment({ DATABASE_URL }) });
  const said = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => (said.stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (said.stderr += chunk.toString()));
  const closed = once(child, 'close') as Promise<[number | null]>;
  t.teardown(() => child.kill('SIGKILL'));
  return { child, said, code: async () => (await closed)[0] };
}

/** Resolves once somebody on the database is at what the condition says. */
function seen(url: string, condition: string): Promise<void> {
  const query = `SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND ${condition}`;
  return withClient(url, (client) => until(async () => (await client.query(query)).rowCount !== 0));
}

test('a migration under way is finished when it is told to stop', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const { code, said } = await withClient(url, async (client) => {
    // It waits to see whether this name is taken.
    await client.query('BEGIN; CREATE TABLE "tokens" (id int)');
    const run = migrating(t, url);
    await seen(url, `wait_event_type = 'Lock'`);
    run.child.kill('SIGTERM');
    run.child.kill('SIGTERM');
    await sleep(500);
    t.equal(run.child.exitCode, null, 'it is still at work');
    await client.query('ROLLBACK');
    return { code: await run.code(), said: run.said };
  });
  t.match({ code, ...said }, { code: 0, stdout: /^applied \d+_init\n/ });
  t.match(await latchkey(['migrate'], { DATABASE_URL: url }), { code: 0, stdout: 'nothing to apply\n' });
});

test('what waits for another process ends when it is told to, and leaves nothing behind', async (t) => {
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

test('a database that is there late is waited for', async (t) => {
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
    // As a server that is starting does.
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

test('who waits for a database ends when told to, and after --wait', async (t) => {
  const DATABASE_URL = `postgres://nobody@127.0.0.1:${await freePort()}/none`;
  const run = migrating(t, DATABASE_URL);
  await until(() => run.said.stderr !== '');
  run.child.kill('SIGTERM');
  t.equal(await run.code(), 143);
  const given = await latchkey(['migrate', '--wait', '1'], { DATABASE_URL });
  t.match(given, { code: 1, stderr: /^waiting: .*\ncannot connect/ });
  t.equal((await latchkey(['migrate', '--wait', 'long'], { DATABASE_URL })).code, 2);
});

test('a database that turns us away is not waited for', async (t) => {
  const { url } = await testDatabase(t);
  for (const DATABASE_URL of [
    url.replace(/\/[^/]+$/, '/no_such_database'),
    url.replace(/\/\/.*@/, '//nobody_here:sesame@'),
  ]) {
    const { code, stderr } = await latchkey(['migrate'], { DATABASE_URL });
    t.equal(code, 1);
    t.match(stderr, /^cannot connect/);
  }
});

/** An ErrorResponse of the protocol. */
function startingUp(): Buffer {
  const fields = Buffer.from('SFATAL\0C57P03\0Mthe database system is starting up\0\0');
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeUInt32BE(fields.length + 4, 1);
  return Buffer.concat([head, fields]);
}
