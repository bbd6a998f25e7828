// suite: e2e
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { joinEmbeddedPostgres } from '../../../src/infra/embedded/postgres.ts';
import { findRunningServer, readyPort } from '../../../src/infra/embedded/running-server.ts';
import { ask, start } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

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
