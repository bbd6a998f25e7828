// suite: e2e
import { spawn } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { EmbeddedDatabaseError } from '../../../src/infra/embedded/postgres.ts';
import {
  ask,
  errorOf,
  host,
  isRoot,
  unprivileged,
  onlyLinux,
  postmaster,
  start,
  urlOf,
} from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

test('a second start on the same folder fails clearly and leaves the first alone', async (t) => {
  const dataDir = testFolder(t);
  const first = await host(t, dataDir);
  const refused = start(t, dataDir);
  await t.rejects(refused, EmbeddedDatabaseError);
  await t.rejects(refused, {
    message: `the embedded database in ${dataDir} is in use by process ${first.child.pid ?? 0}; stop that one, or set DATABASE_URL or another DATA_DIR`,
  });
  t.same(await ask(urlOf(first), 'SELECT 1 AS one'), [{ one: 1 }]);
  const again = await start(t, testFolder(t));
  t.same(await ask(again.url, 'SELECT 1 AS one'), [{ one: 1 }], 'while another folder works');
});

test('one of four simultaneous starts wins', async (t) => {
  const dataDir = testFolder(t);
  const hosts = await Promise.all([1, 2, 3, 4].map(() => host(t, dataDir)));
  const winners = hosts.filter(({ report }) => 'url' in report);
  t.equal(winners.length, 1);
  for (const loser of hosts.filter((each) => !winners.includes(each)))
    t.match(errorOf(loser), 'is in use by process');
  for (const winner of winners) t.same(await ask(urlOf(winner), 'SELECT 1 AS one'), [{ one: 1 }]);
});

test('a folder stays locked until its server has ended', async (t) => {
  const dataDir = testFolder(t);
  const { stop } = await start(t, dataDir);
  const server = postmaster(dataDir);
  process.kill(server, 'SIGSTOP');
  const stopped = stop();
  await sleep(100);
  await t.rejects(start(t, dataDir), { message: 'is in use by process' }, 'while it cannot end');
  process.kill(server, 'SIGCONT');
  await stopped;
  const next = await start(t, dataDir);
  t.strictSame(next.warnings, [], 'the next holder finds no running server');
});

test(
  'a lock and a pid file are taken over if their pid now belongs to another program',
  { skip: onlyLinux },
  async (t) => {
    const dataDir = testFolder(t);
    await (await start(t, dataDir)).stop();
    const numbers = readdirSync(dataDir).map((name) =>
      Number(/^postgres\.lock\.(\d+)$/.exec(name)?.[1] ?? 0),
    );
    const stale = JSON.stringify({ pid: process.pid, started: 'at another time' });
    writeFileSync(join(dataDir, `postgres.lock.${Math.max(...numbers) + 1}`), stale);
    // PostgreSQL itself would mistake this process for a running server.
    const sleeper = spawn('sleep', ['60'], isRoot ? { uid: unprivileged, gid: unprivileged } : {});
    t.teardown(() => sleeper.kill());
    const pidFile = join(dataDir, 'postgres/postmaster.pid');
    writeFileSync(pidFile, `${sleeper.pid ?? 0}\n/elsewhere\n0\n5432\n\n127.0.0.1\n`);
    const next = await start(t, dataDir);
    t.same(await ask(next.url, 'SELECT 1 AS one'), [{ one: 1 }]);
    t.equal(sleeper.exitCode, null, 'the other program is left alone');
  },
);
