// suite: e2e
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  linkSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import {
  ask,
  closedProject,
  host,
  hostScript,
  isRoot,
  launch,
  onlyLinux,
  onlyRoot,
  unprivileged,
  postmaster,
  start,
  urlOf,
} from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';
import { until } from '../../support/until.ts';

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

/** Whether a process of the usual unprivileged user may list a folder. */
function strangerLists(path: string): boolean {
  return spawnSync('ls', [path], { uid: unprivileged, gid: unprivileged, cwd: '/' }).status === 0;
}

function workingDirectory(pid: string): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return undefined;
  }
}

/** Everything that belongs to the cluster. */
function filesOf(dataDir: string): string[] {
  const folder = join(dataDir, 'postgres');
  return [
    folder,
    ...readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  ];
}

test('no process of another program can look into it', { skip: onlyRoot || onlyLinux }, async (t) => {
  const dataDir = testFolder(t);
  chmodSync(dataDir, 0o755);
  const starting = launch(t, dataDir);
  const drafts = () => readdirSync(dataDir).filter((name) => name.startsWith('postgres.new-'));
  const draft = () => join(dataDir, drafts()[0] ?? 'none', 'data');
  await until(() => existsSync(join(draft(), 'base')));
  const creators = readdirSync('/proc').filter((pid) => workingDirectory(pid) === draft());
  t.ok(creators.length > 0, 'initdb runs');
  for (const path of [draft(), ...creators.map((pid) => `/proc/${pid}/cwd/`)])
    t.notOk(strangerLists(path), path);
  await starting.kill();

  const server = await start(t, dataDir);
  const pid = postmaster(dataDir);
  const { uid, gid } = statSync(`/proc/${pid}`);
  for (const file of ['/etc/passwd', '/etc/group'])
    t.notMatch(readFileSync(file, 'utf8'), new RegExp(`:(${uid}|${gid}):`), file);
  t.notOk(strangerLists(`/proc/${pid}/cwd/`));
  await server.stop();

  const stranger = spawn('sleep', ['60'], { uid, gid });
  t.teardown(() => stranger.kill());
  await until(() => stranger.pid !== undefined && statSync(`/proc/${stranger.pid}`).uid === uid);
  await start(t, dataDir);
  t.not(statSync(`/proc/${postmaster(dataDir)}`).uid, uid, 'an id that another program has is left to it');
});

test('root takes over a database that ran as a user of other programs', { skip: onlyRoot }, async (t) => {
  const dataDir = testFolder(t);
  const server = await start(t, dataDir);
  await ask(server.url, `CREATE TABLE kept AS SELECT 'a word' AS word`);
  await server.stop();
  for (const path of filesOf(dataDir)) lchownSync(path, unprivileged, unprivileged);

  const secret = join(testFolder(t), 'secret');
  writeFileSync(secret, 'of root');
  const planted = join(dataDir, 'postgres', 'planted');
  linkSync(secret, planted);
  await t.rejects(start(t, dataDir), { name: 'EmbeddedDatabaseError', message: /planted is a hard link/ });
  t.equal(statSync(secret).uid, 0, 'a file of root stays its own');
  rmSync(planted);

  const moved = join(testFolder(t), 'wal');
  renameSync(join(dataDir, 'postgres', 'pg_wal'), moved);
  symlinkSync(moved, join(dataDir, 'postgres', 'pg_wal'));
  chownSync(moved, unprivileged, unprivileged);
  const refusal = await start(t, dataDir).then(
    () => '',
    (error: unknown) => (error as Error).message,
  );
  t.match(refusal, /pg_wal is a link to data of another user: run `chown -R \d+:\d+ .*\/wal`/);
  execFileSync('chown', /`chown (-R) ([\d:]+) (.*)`/.exec(refusal)?.slice(1) ?? []);
  chmodSync(dirname(moved), 0o711);

  const next = await start(t, dataDir);
  t.same(await ask(next.url, 'SELECT word FROM kept'), [{ word: 'a word' }]);
  const { uid } = statSync(`/proc/${postmaster(dataDir)}`);
  t.not(uid, unprivileged);
  await next.stop();
  t.strictSame([...new Set(filesOf(dataDir).map((path) => statSync(path).uid))], [uid]);
});

test('a database of another user is left where others could have put it', { skip: onlyRoot }, async (t) => {
  const dataDir = testFolder(t);
  await (await start(t, dataDir)).stop();
  for (const path of filesOf(dataDir)) lchownSync(path, unprivileged, unprivileged);
  chmodSync(dataDir, 0o1777);
  await t.rejects(start(t, dataDir), {
    name: 'EmbeddedDatabaseError',
    message: /belongs to another user .*run `chown -R \d+ /,
  });
  t.equal(statSync(join(dataDir, 'postgres')).uid, unprivileged);
});

test('the owner of the data folder runs it, if it has a name or not', { skip: onlyRoot }, async (t) => {
  for (const owner of [unprivileged, 54_321]) {
    const dataDir = testFolder(t);
    chownSync(dataDir, owner, owner);
    const { url, stop } = await start(t, dataDir);
    t.same(await ask(url, 'SELECT 1 AS one'), [{ one: 1 }]);
    t.equal(statSync(`/proc/${postmaster(dataDir)}`).uid, owner);
    await stop();
    chownSync(join(dataDir, 'postgres'), 2, 2);
    await t.rejects(start(t, dataDir), {
      message: new RegExp(`run \`chown -R ${owner} ${dataDir}/postgres\``),
    });
  }
});

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
