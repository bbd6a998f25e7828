// suite: e2e
import { statSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { ask, host, postmaster, start, urlOf } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';
import { withClient } from '../../support/postgres.ts';
import { joinEmbeddedPostgres, findRunningServer, readyPort } from '../../../src/infra/embedded/postgres.ts';

test('a new data folder gets a UTF-8 database, closed to clients without the password', async (t) => {
  const dataDir = join(testFolder(t), 'new/.data');
  const { url, stop } = await start(t, dataDir);
  const settings = await ask(
    url,
    `SELECT current_database(), current_setting('server_encoding') AS encoding,
       current_setting('listen_addresses') AS addresses, current_setting('unix_socket_directories') AS sockets,
       (SELECT datlocale FROM pg_database WHERE datname = current_database()) AS locale`,
  );
  t.same(settings, [
    {
      current_database: 'latchkey',
      encoding: 'UTF8',
      addresses: '127.0.0.1',
      sockets: '',
      locale: 'C.UTF-8',
    },
  ]);
  t.equal(statSync(join(dataDir, 'postgres.password')).mode & 0o777, 0o600);
  const wrong = new URL(url);
  wrong.password = 'wrong';
  await t.rejects(ask(wrong.href, 'SELECT 1'), { code: '28P01' });
  await stop();
  await t.rejects(ask(url, 'SELECT 1'), { code: 'ECONNREFUSED' });
  await stop();
});

test('a restart keeps the data, and is quicker than the first start', async (t) => {
  const dataDir = testFolder(t);
  const begun = performance.now();
  const first = await start(t, dataDir);
  const firstTook = performance.now() - begun;
  await ask(first.url, `CREATE TABLE kept AS SELECT 'a word' AS word`);
  await first.stop();
  const again = performance.now();
  const second = await start(t, dataDir);
  t.ok(performance.now() - again < firstTook);
  t.same(await ask(second.url, 'SELECT word FROM kept'), [{ word: 'a word' }]);
  t.same(second.warnings, []);
});

test('Ctrl-C in the terminal does not reach the server', async (t) => {
  const dataDir = testFolder(t);
  const running = await host(t, dataDir, { detached: true });
  process.kill(-(running.child.pid ?? 0), 'SIGINT');
  await sleep(300);
  t.same(await ask(urlOf(running), 'SELECT 1 AS one'), [{ one: 1 }]);
});

test('an unexpected exit is reported once, a normal stop is not', async (t) => {
  const dataDir = testFolder(t);
  const reasons: string[] = [];
  const server = await start(t, dataDir, (reason) => void reasons.push(reason));
  process.kill(postmaster(dataDir), 'SIGKILL');
  while (reasons.length === 0) await sleep(10);
  t.match(reasons, [/SIGKILL/]);
  await server.stop();

  const next = await start(t, dataDir, (reason) => void reasons.push(reason));
  await next.stop();
  t.equal(reasons.length, 1);
});

test('stop does not wait for clients', async (t) => {
  const { url, stop } = await start(t, testFolder(t));
  await withClient(url, async (client) => {
    client.on('error', () => undefined);
    const busy = t.rejects(client.query('SELECT pg_sleep(60)'));
    await stop();
    await busy;
  });
});

const log = { debug: () => undefined, warn: () => undefined };
const PID_FILE = ['4711', '/data', '1795000000', '54321', '', '127.0.0.1', '  1', 'ready   ', ''];

test('a server is found once it is ready', (t) => {
  t.equal(readyPort(PID_FILE.join('\n')), 54321);
  for (const [line, text] of [
    [7, 'starting'],
    [7, 'stopping'],
    [3, ''],
    [3, 'x'],
  ] as const)
    t.equal(readyPort(PID_FILE.with(line, text).join('\n')), null, `${line}: ${text}`);
  t.equal(readyPort(''), null);
  t.end();
});

test('if no server is found, the error names the folder', async (t) => {
  const dataDir = testFolder(t);
  await t.rejects(findRunningServer(dataDir, 0), { name: 'EmbeddedDatabaseError', message: dataDir });
  mkdirSync(join(dataDir, 'postgres'));
  writeFileSync(join(dataDir, 'postgres', 'postmaster.pid'), PID_FILE.join('\n'));
  await t.rejects(findRunningServer(dataDir, 0), { name: 'EmbeddedDatabaseError' }, 'without its password');
  writeFileSync(join(dataDir, 'postgres.password'), 'sesame\n');
  t.strictSame(await findRunningServer(dataDir, 0), { port: 54321, password: 'sesame' });
});

test('a command uses the server of another process, and leaves it running', async (t) => {
  const dataDir = testFolder(t);
  const server = await start(t, dataDir);
  const joined = await joinEmbeddedPostgres({ dataDir, log });
  t.equal(joined.url, server.url);
  await joined.stop();
  t.strictSame(await ask(server.url, 'SELECT 1 AS one'), [{ one: 1 }]);
});

test('a command starts a server where none runs, and stops it', async (t) => {
  const dataDir = testFolder(t);
  const own = await joinEmbeddedPostgres({ dataDir, log });
  t.strictSame(await ask(own.url, 'SELECT 1 AS one'), [{ one: 1 }]);
  await own.stop();
  await t.rejects(ask(own.url, 'SELECT 1'));
});
