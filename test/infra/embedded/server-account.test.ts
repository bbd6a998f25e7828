import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import {
  ask,
  closedProject,
  host,
  hostScript,
  isRoot,
  unprivileged,
  onlyRoot,
  postmaster,
  start,
  urlOf,
} from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

test(
  'root runs it as another user, even below a folder that only root may enter',
  { skip: onlyRoot },
  async (t) => {
    const project = closedProject(t);
    const script = join(project, 'dist/test/support/embedded-host.js');
    const temporary = testFolder(t);
    chmodSync(temporary, 0o755);
    const options = { script, temporary };
    const dataDir = join(project, '.data');
    const both = await Promise.all([host(t, dataDir, options), host(t, `${dataDir}2`, options)]);
    for (const each of both) t.same(await ask(urlOf(each), 'SELECT 1 AS one'), [{ one: 1 }]);
    t.not(statSync(`/proc/${postmaster(dataDir)}`).uid, 0);
    t.equal(readdirSync(temporary).length, 1, 'the programs were copied once');
    for (const { finish } of both) await finish();
    const again = await host(t, dataDir, options);
    t.same(await ask(urlOf(again), 'SELECT 1 AS one'), [{ one: 1 }], 'and again');
  },
);

test('a normal user runs it as itself', { skip: onlyRoot || unreachable() }, async (t) => {
  const dataDir = testFolder(t);
  chownSync(dataDir, unprivileged, unprivileged);
  const running = await host(t, dataDir, { uid: unprivileged, gid: unprivileged });
  t.same(await ask(urlOf(running), 'SELECT 1 AS one'), [{ one: 1 }]);
  t.equal(statSync(`/proc/${postmaster(dataDir)}`).uid, unprivileged);
  await running.finish();

  const asRoot = await start(t, dataDir);
  t.equal(statSync(`/proc/${postmaster(dataDir)}`).uid, unprivileged, 'and root keeps that user');
  await asRoot.stop();
  t.same(
    await ask(urlOf(await host(t, dataDir, { uid: unprivileged, gid: unprivileged })), 'SELECT 1 AS one'),
    [{ one: 1 }],
  );
});

function unreachable(): string | false {
  if (!isRoot) return false;
  const tried = spawnSync(process.execPath, ['--check', hostScript], {
    uid: unprivileged,
    gid: unprivileged,
    cwd: '/',
  });
  return tried.status === 0 ? false : `other users may not enter ${dirname(realpathSync(hostScript))}`;
}
