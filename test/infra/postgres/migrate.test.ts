import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { test, type Test } from 'tap';
import { createMigration, driftScript } from '../../../src/infra/postgres/create-migration.ts';
import { migrate, MigrationError, resolveMigration } from '../../../src/infra/postgres/migrate.ts';
import { migrationNames, shippedMigrations } from '../../../src/infra/postgres/migration-files.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';

const broken = '29990101000000_broken';
const shipped = migrationNames(shippedMigrations());

/** A copy of the migrations, to which a test may add. */
function copiedMigrations(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'lk-migrations-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  cpSync(shippedMigrations(), folder, { recursive: true });
  return folder;
}

function addMigration(folder: string, name: string, sql: string): void {
  mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, name, 'migration.sql'), sql);
}

async function failure(promise: Promise<unknown>): Promise<MigrationError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof MigrationError)) throw new Error('expected a MigrationError', { cause: error });
  return error;
}

test('applies the migrations, and finds nothing to do the second time', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  t.same(await migrate(url), { applied: shipped });
  t.same(await migrate(url), { applied: [] });
});

test('four processes at once apply each migration once', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const module = new URL('../../../src/infra/postgres/migrate.js', import.meta.url).href;
  const script = `import { migrate } from '${module}';
    process.stdout.write(JSON.stringify(await migrate(process.argv[1])));`;
  const run = promisify(execFile);
  const runs = [1, 2, 3, 4].map(() => run(process.execPath, ['--input-type=module', '-e', script, url]));
  const applied = (await Promise.all(runs)).map(
    ({ stdout }) => (JSON.parse(stdout) as { applied: string[] }).applied,
  );
  t.same(applied.flat(), shipped);
  t.equal(applied.filter((names) => names.length > 0).length, 1);
});

test('an index may be created concurrently while another process waits for its turn', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const name = '29990101000000_index';
  addMigration(folder, name, 'CREATE INDEX CONCURRENTLY "tokens_name" ON "tokens" ("name")');
  const results = await Promise.all([migrate(url, { folder }), migrate(url, { folder })]);
  t.same(results.map(({ applied }) => applied).flat(), [name]);
});

test('a function and a text with semicolons are applied whole', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(
    folder,
    '29990101000000_function',
    `CREATE FUNCTION answer() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM 1; RETURN 'a;b'; END $$;
     COMMENT ON FUNCTION answer() IS 'one; two';`,
  );
  await migrate(url, { folder });
  const { rows } = await withClient(url, (client) => client.query('SELECT answer()'));
  t.same(rows, [{ answer: 'a;b' }]);
});

test('a migration that fails is named, with what the database said and what to do', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'CREATE TABLE half (id int); INSERT INTO nowhere VALUES (1);');

  const first = await failure(migrate(url, { folder }));
  t.match(first.message, `the migration ${broken} failed`);
  t.match(first.message, 'relation "nowhere" does not exist (42P01)');
  t.match(first.message, `npx latchkey migrate --resolve-rolled-back ${broken}`);
  t.match(first.message, `npx latchkey migrate --resolve-applied ${broken}`);
  t.notMatch(first.message, /schema-engine|\.rs:/);
  t.equal((await failure(migrate(url, { folder }))).message, first.message, 'the next run says the same');

  const { rows } = await withClient(url, (client) => client.query(`SELECT to_regclass('half') AS half`));
  t.same(rows, [{ half: null }], 'nothing of it was kept');
});

test('a failed migration that was marked as rolled back runs again', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'SELECT 1/0');
  await failure(migrate(url, { folder }));
  await resolveMigration(url, broken, 'rolled-back', { folder });
  addMigration(folder, broken, 'SELECT 1');
  t.same(await migrate(url, { folder }), { applied: [broken] });
});

test('a failed migration that was marked as applied counts as done', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'SELECT 1/0');
  await failure(migrate(url, { folder }));
  await resolveMigration(url, broken, 'applied', { folder });
  t.same(await migrate(url, { folder }), { applied: [] });
  await t.rejects(resolveMigration(url, broken, 'applied', { folder }), MigrationError);
  await t.rejects(resolveMigration(url, 'no_such_migration', 'applied', { folder }), MigrationError);
});

test('a migration that was cut off is reported, although the database said nothing', async (t) => {
  const { url } = await testDatabase(t);
  await withClient(url, (client) => client.query('UPDATE _prisma_migrations SET finished_at = NULL'));
  t.match((await failure(migrate(url))).message, 'cut off');
});

test('no error about a connection holds the password', async (t) => {
  for (const url of [
    'postgres://someone:hunter2@127.0.0.1:1/db',
    'postgres://someone:hunter2@localhost:1/db',
    'postgres://someone:hunter2@[:1/db',
  ]) {
    const error = await failure(migrate(url));
    t.notMatch(JSON.stringify([error.message, error.stack, error.cause]), 'hunter2');
    t.ok(error.message.length > 20, error.message);
  }
});

test('schema.prisma and the migrations say the same', async (t) => {
  const { url } = await testDatabase(t);
  t.equal(await driftScript(url), '');
  const folder = copiedMigrations(t);
  addMigration(
    folder,
    '29990101000000_stray',
    'CREATE TABLE "stray" ("id" INT PRIMARY KEY CHECK ("id" > 0))',
  );
  t.match(await driftScript(url, { folder }), 'DROP TABLE "stray"', 'and a difference would be seen');
});

test('a developer gets a migration which leads to schema.prisma', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const folder = mkdtempSync(join(tmpdir(), 'lk-migrations-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  const lock = 'migration_lock.toml';
  cpSync(join(shippedMigrations(), lock), join(folder, lock));
  const name = await createMigration(url, 'first', { folder });
  t.match(name, /^\d{14}_first$/);
  t.match(readFileSync(join(folder, name ?? '', 'migration.sql'), 'utf8'), 'CREATE TABLE "tokens"');
  t.equal(await createMigration(url, 'second', { folder }), undefined, 'then there is nothing left to do');
});

test('the schema engine is the one that belongs to the installed Prisma', (t) => {
  const require = createRequire(import.meta.url);
  const versionOf = (entry: string) => {
    const file = join(dirname(require.resolve(entry)), 'package.json');
    return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  };
  const engine = versionOf('@prisma/schema-engine-wasm/schema_engine_bg');
  t.equal(engine, versionOf('@prisma/engines-version'));
  t.match(engine, /\.[0-9a-f]{40}$/);
  t.end();
});
