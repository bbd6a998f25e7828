// suite: e2e
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { ask, host, postmaster, start, urlOf } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';
import { withClient } from '../../support/postgres.ts';

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

test('two data folders can run their servers at the same time', async (t) => {
  const servers = await Promise.all([start(t, testFolder(t)), start(t, testFolder(t))]);
  t.equal(new Set(servers.map(({ url }) => new URL(url).port)).size, 2);
});
