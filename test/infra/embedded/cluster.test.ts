// suite: e2e
import { chownSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { ask, isRoot, launch, unprivileged, start } from '../../support/embedded.ts';
import { testFolder } from '../../support/folder.ts';

test('an interrupted initdb runs again', async (t) => {
  const dataDir = testFolder(t);
  const { kill } = launch(t, dataDir);
  const isUnderWay = () =>
    readdirSync(dataDir).some(
      (name) => name.startsWith('postgres.new-') && existsSync(join(dataDir, name, 'data/base')),
    );
  while (!isUnderWay()) await sleep(5);
  await kill();
  t.notOk(existsSync(join(dataDir, 'postgres')));
  const next = await start(t, dataDir);
  t.same(await ask(next.url, 'SELECT 1 AS one'), [{ one: 1 }]);
  t.same(
    readdirSync(dataDir).filter((name) => name.startsWith('postgres.new-')),
    [],
  );
});

test('a folder without a database is not touched', async (t) => {
  const dataDir = testFolder(t);
  mkdirSync(join(dataDir, 'postgres'));
  if (isRoot) chownSync(join(dataDir, 'postgres'), unprivileged, unprivileged);
  writeFileSync(join(dataDir, 'postgres/notes'), 'mine');
  await t.rejects(start(t, dataDir), { name: 'EmbeddedDatabaseError', message: /not a PostgreSQL/ });
  t.equal(readFileSync(join(dataDir, 'postgres/notes'), 'utf8'), 'mine');
});

test('a database without its password file, or of another version, gives a clear error', async (t) => {
  const dataDir = testFolder(t);
  await (await start(t, dataDir)).stop();
  const version = join(dataDir, 'postgres/PG_VERSION');
  const found = readFileSync(version, 'utf8');
  writeFileSync(version, '9\n');
  await t.rejects(start(t, dataDir), { name: 'EmbeddedDatabaseError', message: /PostgreSQL 9\b/ });
  writeFileSync(version, found);
  rmSync(join(dataDir, 'postgres.password'));
  await t.rejects(start(t, dataDir), { name: 'EmbeddedDatabaseError', message: /password .* is missing/ });
});
