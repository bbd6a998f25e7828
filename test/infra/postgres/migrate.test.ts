// suite: e2e
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { test, type Test } from 'tap';
import { ORDERED_BY_LIBRARY } from '../../../src/infra/postgres/inspect.ts';
import { migrate, MigrationError, resolveMigration } from '../../../src/infra/postgres/migrate.ts';
import { migrationNames, shippedMigrations } from '../../../src/infra/postgres/migration-files.ts';
import { testFolder } from '../../support/folder.ts';
import { LAST_OF_FIRST, migrationsUntil } from '../../support/migrations.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';
import { EVERYTHING, migrationList, withSchemaEngine } from '../../support/schema-engine.ts';
import { sql } from '../../support/sql.ts';
import { toolsMissing } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

const broken = '29990101000000_broken';
const shipped = migrationNames(shippedMigrations());

/** A copy of the migrations that a test may add to. */
function copiedMigrations(t: Test): string {
  const folder = testFolder(t);
  cpSync(shippedMigrations(), folder, { recursive: true });
  return folder;
}

function addMigration(folder: string, name: string, sql: string): void {
  mkdirSync(join(folder, name), { recursive: true });
  writeFileSync(join(folder, name, 'migration.sql'), sql);
}

/** The rows of a migration, oldest first. */
async function recordsOf(url: string, name: string): Promise<Record<string, unknown>[]> {
  const query = 'SELECT * FROM _prisma_migrations WHERE migration_name = $1 ORDER BY started_at, finished_at';
  const { rows } = await withClient(url, (client) => client.query<Record<string, unknown>>(query, [name]));
  return rows;
}

/** A record that 1.0.0 has left open. */
async function openRecord(url: string, name: string, logs: string | null): Promise<void> {
  await sql(
    url,
    `INSERT INTO _prisma_migrations (id, checksum, migration_name, logs) VALUES (gen_random_uuid(), '', $1, $2)`,
    [name, logs],
  );
}

async function failure(promise: Promise<unknown>): Promise<MigrationError> {
  const error: unknown = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof MigrationError)) throw new Error('expected a MigrationError', { cause: error });
  return error;
}

test('the addresses of 1.0.0 get the form in which they are compared, also where two become one', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  await migrate(url, { folder: migrationsUntil(t, LAST_OF_FIRST) });
  const emails = [
    'ada@example.com',
    'é@x',
    'e\u0301@x',
    'x@bücher.example',
    'x@xn--bcher-kva.example',
    '<ü@x>',
  ];
  // More than two pages of rows, whose ids have one to four digits.
  const many = Array.from({ length: 2001 }, (_, at) => `x${at}@ü.example`);
  const insert = `INSERT INTO users (username, username_skeleton, email, name, password_hash)
    SELECT 'u' || n, 'u' || n, email, '', '' FROM unnest($1::text[]) WITH ORDINALITY AS row (email, n)`;
  await withClient(url, (client) => client.query(insert, [[...emails, ...many]]));
  await migrate(url, { folder: migrationsUntil(t, '20261126220000_user_email_key') });
  const unkeyed = `SELECT FROM users WHERE email <> 'ada@example.com' AND email_key IS NULL`;
  await withClient(url, async (client) => {
    await client.query(`BEGIN; SELECT FROM users WHERE email = 'x1500@ü.example' FOR UPDATE`);
    t.match((await failure(migrate(url))).message, 'lock timeout');
    await client.query('ROLLBACK');
    t.equal((await client.query(unkeyed)).rowCount, many.length + emails.length - 1 - 1000, 'a page stays');
  });
  t.match(await migrate(url), { keyed: many.length + emails.length - 1 - 1000 }, 'the next run goes on');
  t.match(await migrate(url), { keyed: 0 });
  const { rows } = await withClient(url, (client) =>
    client.query('SELECT email, email_key AS key FROM users ORDER BY id LIMIT 6'),
  );
  const keys = [null, 'é@x', 'é@x', 'x@xn--bcher-kva.example', 'x@xn--bcher-kva.example', '<ü@x>'];
  t.strictSame(
    rows,
    emails.map((email, at) => ({ email, key: keys[at] })),
    '1.0.0 finds what it has written',
  );
});

test('an address is marked also where the server counts bytes, not characters', async (t) => {
  const { url } = await testDatabase(t, { migrated: false, encoding: 'SQL_ASCII' });
  await migrate(url);
  const insert = `INSERT INTO users (username, username_skeleton, email, name, password_hash)
    VALUES ('ada', 'ada', 'x@bücher.example', '', '')`;
  await withClient(url, (client) => client.query(insert));
  t.match(await migrate(url), { keyed: 1 });
});

test('no library orders an index', async (t) => {
  const { url } = await testDatabase(t);
  await withClient(url, async (client) => {
    t.same((await client.query(ORDERED_BY_LIBRARY)).rows, [], 'write COLLATE "C" (docs/migrations.md)');
    // Whether a query could use the index: a column of another order could not be compared with it.
    const { rows } = await client.query(
      `SELECT indexrelid::regclass AS index, attname FROM pg_index
       JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY(indkey) AND attcollation <> 0
       WHERE attcollation <> ALL(indcollation::oid[]) AND attrelid::regclass::text !~ '^pg_'`,
    );
    t.same(rows, []);
  });
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

test('creates an index concurrently while another process waits for the lock', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const name = '29990101000000_index';
  addMigration(folder, name, 'CREATE INDEX CONCURRENTLY "tokens_name" ON "tokens" ("name")');
  const results = await Promise.all([migrate(url, { folder }), migrate(url, { folder })]);
  t.same(results.map(({ applied }) => applied).flat(), [name]);
});

test('does not split a function or a text at its semicolons', async (t) => {
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

test('a failed migration is named, with the database’s error and the next step', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'CREATE TABLE half (id int); INSERT INTO nowhere VALUES (1);');

  const first = await failure(migrate(url, { folder }));
  t.match(first.message, `the migration ${broken} failed`);
  t.match(first.message, 'relation "nowhere" does not exist (42P01)');
  t.match(first.message, `npx latchkey migrate --resolve-applied ${broken}`);
  t.notMatch(first.message, /schema-engine|\.rs:/);
  t.equal((await failure(migrate(url, { folder }))).message, first.message, 'the next run says the same');
  t.same(await recordsOf(url, broken), [], 'nothing stops another version');
  const { rows } = await withClient(url, (client) => client.query(`SELECT to_regclass('half') AS half`));
  t.same(rows, [{ half: null }], 'all of it was rolled back');
  await resolveMigration(url, broken, 'applied', { folder });
  t.same((await migrate(url, { folder })).applied, [], 'its work was done by hand');
});

test('no connection error holds the password', async (t) => {
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

test('the records equal those of Prisma’s migrate deploy', async (t) => {
  const folder = testFolder(t);
  addMigration(folder, '1_one', 'CREATE TABLE one (id int);\nCREATE INDEX ON one (id);\n');
  addMigration(folder, '2_two', '-- Ünïcode\nCREATE TABLE two (id int)');
  const { url: ours } = await testDatabase(t, { migrated: false });
  const { url: theirs } = await testDatabase(t, { migrated: false });
  const deploy = (url: string) =>
    withSchemaEngine(url, (engine) =>
      engine.applyMigrations({ migrationsList: migrationList(folder), filters: EVERYTHING }),
    );
  await migrate(ours, { folder });
  await deploy(theirs);

  const columns = `SELECT column_name, column_default, is_nullable, data_type, character_maximum_length
    FROM information_schema.columns WHERE table_name = '_prisma_migrations' ORDER BY ordinal_position`;
  const keys = `SELECT pg_get_constraintdef(oid) AS definition FROM pg_constraint
    WHERE conrelid = '_prisma_migrations'::regclass ORDER BY conname`;
  const records = `SELECT migration_name, checksum, logs, rolled_back_at, applied_steps_count,
    length(id) AS id, finished_at >= started_at AS finished FROM _prisma_migrations ORDER BY started_at`;
  const all = (url: string) =>
    withClient(url, async (client) => [
      (await client.query<object>(columns)).rows,
      (await client.query<object>(keys)).rows,
      (await client.query<object>(records)).rows,
    ]);
  const [table, constraints, rows] = await all(ours);
  t.same([table, constraints, rows], await all(theirs));
  t.same([table?.length, rows?.length], [8, 2]);
  t.same(
    await migrate(theirs, { folder }),
    { applied: [], changed: [], keyed: 0 },
    'what Prisma applied is complete',
  );
  t.same(await deploy(ours), { appliedMigrationNames: [] }, 'and Prisma finds ours complete');
});

test('Prisma sees what was applied here, what failed, and how it was settled', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const folder = copiedMigrations(t);
  // The query behind `prisma migrate status`.
  const status = () =>
    withSchemaEngine(url, (engine) =>
      engine.diagnoseMigrationHistory({
        migrationsList: migrationList(folder),
        optInToShadowDatabase: false,
        filters: EVERYTHING,
      }),
    );
  await migrate(url, { folder });
  const well = {
    history: null,
    failedMigrationNames: [],
    editedMigrationNames: [],
    hasMigrationsTable: true,
  };
  t.match(await status(), well);

  addMigration(folder, broken, 'SELECT 1/0');
  await failure(migrate(url, { folder }));
  await openRecord(url, broken, null);
  t.match(await status(), { ...well, failedMigrationNames: [broken] }, 'as 1.0.0 has left it');
  await resolveMigration(url, broken, 'applied', { folder });
  t.match(await status(), well);
  const [failed, settled] = await recordsOf(url, broken);
  t.match(failed, { finished_at: null, rolled_back_at: Date });
  t.match(settled, { finished_at: Date, rolled_back_at: null, applied_steps_count: 0, logs: '' });
  t.same(settled?.started_at, settled?.finished_at);
  t.same((await migrate(url, { folder })).applied, []);
  await t.rejects(resolveMigration(url, broken, 'applied', { folder }), MigrationError);
  await t.rejects(resolveMigration(url, 'no_such_migration', 'applied', { folder }), MigrationError);
});

test('a file that changed after it was applied is named, and not applied again', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const [first = ''] = shipped;
  const second = '29990101000000_second';
  const text = 'CREATE TABLE one (id int);\nCREATE TABLE two (id int);\n';
  addMigration(folder, second, text);
  t.same(await migrate(url, { folder }), { applied: [second], changed: [], keyed: 0 });
  addMigration(folder, first, 'SELECT 1/0');
  addMigration(folder, second, text.replaceAll('\n', '\r\n'));
  t.same(
    await migrate(url, { folder }),
    { applied: [], changed: [first], keyed: 0 },
    'line endings do not count',
  );
  const [record] = await recordsOf(url, second);
  t.equal(record?.checksum, createHash('sha256').update(text).digest('hex'));
});

test('a database with foreign tables is left alone', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  await withClient(url, (client) => client.query('CREATE TABLE theirs (id int)'));
  t.match((await failure(migrate(url))).message, 'not empty');
  const { rows } = await withClient(url, (client) =>
    client.query(`SELECT tablename FROM pg_tables WHERE schemaname = 'public'`),
  );
  t.same(rows, [{ tablename: 'theirs' }]);
});

test('a database without the schema public gets it', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  await withClient(url, (client) => client.query('DROP SCHEMA public'));
  t.same((await migrate(url)).applied, shipped);
});

test('nothing is applied if a missing migration has no file', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, '29990101000000_fine', 'CREATE TABLE fine (id int)');
  mkdirSync(join(folder, '29990102000000_empty'));
  t.match(
    (await failure(migrate(url, { folder }))).message,
    '29990102000000_empty has no file migration.sql',
  );
  t.same(await recordsOf(url, '29990101000000_fine'), []);
});

test('what passes leaves no record, and is tried again', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'CREATE TABLE half (id int); SELECT pg_terminate_backend(pg_backend_pid())');
  t.match((await failure(migrate(url, { folder }))).message, /connection was lost[^]+terminating/);
  t.same(await recordsOf(url, broken), []);

  addMigration(folder, broken, `SET LOCAL lock_timeout = '50ms'; ALTER TABLE "users" ADD COLUMN "half" int`);
  const told: string[] = [];
  const blocked = async (use: () => Promise<void>) =>
    withClient(url, async (reader) => {
      await reader.query('BEGIN; LOCK TABLE users IN ACCESS SHARE MODE');
      await use();
      await reader.query('ROLLBACK');
    });
  await blocked(async () => {
    const { message } = await failure(migrate(url, { folder }));
    t.match(
      message,
      `in the way of the migration ${broken}: canceling statement due to lock timeout (55P03)`,
    );
  });
  t.same(await recordsOf(url, broken), []);
  let run: ReturnType<typeof migrate> | undefined;
  await blocked(async () => {
    run = migrate(url, { folder, timeout: 60_000, onWait: (reason) => told.push(reason) });
    await until(() => told.length > 0);
  });
  t.same((await run)?.applied, [broken]);
  t.match(told, [/55P03.*tries it again.*\(for 5\d s more\)$/]);
  t.match(await recordsOf(url, broken), [{ finished_at: Date, applied_steps_count: 1 }]);
});

test('of the records that 1.0.0 left, only those of a lost connection stop the next run', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'CREATE TABLE half (id int)');
  await openRecord(url, broken, 'canceling statement due to lock timeout (55P03)');
  t.same((await migrate(url, { folder })).applied, [broken]);
  t.match(await recordsOf(url, broken), [
    { rolled_back_at: Date, finished_at: null },
    { rolled_back_at: null },
  ]);

  await openRecord(url, broken, null);
  t.same(
    (await migrate(url, { folder })).applied,
    [],
    'nor that of a run whose index another one has finished',
  );

  const lost = '29990101000001_lost';
  addMigration(folder, lost, 'SELECT 1');
  await openRecord(url, lost, null);
  for (let i = 0; i < 2; i++) {
    const { message } = await failure(migrate(url, { folder }));
    t.match(message, `npx latchkey migrate --resolve-rolled-back ${lost}`);
  }
});

test('an index that was half-way is finished, or dropped and made again', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const name = '29990101000000_index';
  const text = '-- Why.\nCREATE UNIQUE INDEX CONCURRENTLY "tokens_name"\n    ON "tokens" ("name");\n';
  addMigration(folder, name, text);
  const state = `SELECT indisvalid AS valid FROM pg_index WHERE indexrelid = to_regclass('tokens_name')`;
  await withClient(url, async (client) => {
    await client.query(`WITH ada AS (INSERT INTO users (username, username_skeleton, email, name, password_hash)
        VALUES ('ada', 'ada', 'ada@example.com', '', '') RETURNING id)
      INSERT INTO tokens (user_id, type, name, created_at) SELECT id, 'session', 'one', now() FROM ada, generate_series(1, 2)`);
    for (let i = 0; i < 2; i++)
      t.match((await failure(migrate(url, { folder }))).message, /could not create.*23505/);
    t.match((await client.query(state)).rows, [{ valid: false }]);
    const open = (await recordsOf(url, name)).filter((record) => record.rolled_back_at === null);
    t.same(open, [], 'nothing stops another version');
    await client.query(`UPDATE tokens SET name = id::text`);
    t.same((await migrate(url, { folder })).applied, [name], 'the INVALID index is not in the way');
    t.match((await client.query(state)).rows, [{ valid: true }]);

    // The answer to CREATE INDEX was lost.
    const unfinished = `UPDATE _prisma_migrations SET finished_at = NULL, rolled_back_at = NULL, logs = NULL
      WHERE migration_name = $1 AND applied_steps_count = 1`;
    const file = `SELECT pg_relation_filenode('tokens_name') AS node`;
    const before = (await client.query(file)).rows;
    await client.query(unfinished, [name]);
    t.same((await migrate(url, { folder })).applied, [name]);
    t.same((await client.query(file)).rows, before, 'it is complete, and not built again');
    // The connection was lost while it was built.
    await client.query(unfinished.replace('= 1', '= 0'), [name]);
    await client.query(
      `UPDATE _prisma_migrations SET rolled_back_at = now() WHERE applied_steps_count = 1 AND migration_name = $1`,
      [name],
    );
    await client.query(`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'tokens_name'::regclass`);
    t.same((await migrate(url, { folder })).applied, [name]);
    t.notSame((await client.query(file)).rows, before);
    t.match((await client.query(state)).rows, [{ valid: true }]);
  });
});

test('a build that a lost run has left to the server is waited for', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const name = '29990101000000_index';
  const text = 'CREATE INDEX CONCURRENTLY "tokens_name" ON "tokens" ("name")';
  addMigration(folder, name, text);
  await openRecord(url, name, null);
  const seen = (query: string) =>
    withClient(url, (client) => until(async () => (await client.query(query)).rowCount !== 0));
  const waits = `SELECT FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event = 'virtualxid' AND query LIKE 'CREATE INDEX%'`;
  await withClient(url, (reader) =>
    withClient(url, async (lost) => {
      const snapshot = 'BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM users';
      await reader.query(snapshot);
      const build = lost.query(text);
      await seen(waits);
      const run = migrate(url, { folder });
      await seen(`SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND query LIKE '%isBuilt%'`);
      await reader.query('COMMIT');
      await build;
      t.same((await run).applied, [name]);

      // A role's lock_timeout does not end the wait for older snapshots.
      const other = '29990101000001_index';
      addMigration(folder, other, text.replace('tokens_name', 'tokens_name_2'));
      await reader.query(snapshot);
      const limited = migrate(`${url}?options=-c%20lock_timeout%3D1s`, { folder });
      await seen(waits);
      await sleep(1200);
      await reader.query('COMMIT');
      t.same((await limited).applied, [other]);
    }),
  );
});

test('each migration may be waited for as long as --wait says', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  const names = ['29990101000000_users', '29990101000001_tokens'];
  const tables = ['users', 'tokens'];
  for (const [at, table] of tables.entries())
    addMigration(
      folder,
      names[at] ?? '',
      `SET LOCAL lock_timeout = '50ms'; ALTER TABLE "${table}" ADD COLUMN "half" int`,
    );
  await withClient(url, (users) =>
    withClient(url, async (tokens) => {
      for (const [at, client] of [users, tokens].entries())
        await client.query(`BEGIN; LOCK TABLE ${tables[at] ?? ''} IN ACCESS SHARE MODE`);
      const told: string[] = [];
      // There is one attempt more within this time.
      const run = migrate(url, { folder, timeout: 7000, onWait: (reason) => told.push(reason) });
      for (const [at, client] of [users, tokens].entries()) {
        await Promise.race([run, until(() => told.length > at)]);
        await client.query('COMMIT');
      }
      t.same((await run).applied, names);
      t.match(
        told,
        names.map((name) => new RegExp(name)),
      );
    }),
  );
});

test('a migration that failed and was applied later cannot be settled again', async (t) => {
  const { url } = await testDatabase(t);
  const folder = copiedMigrations(t);
  addMigration(folder, broken, 'SELECT 1');
  await openRecord(url, broken, null);
  for (let i = 0; i < 2; i++) await resolveMigration(url, broken, 'rolled-back', { folder });
  t.same((await migrate(url, { folder })).applied, [broken], 'a repeated answer of the operator is a no-op');
  for (const resolution of ['rolled-back', 'applied'] as const) {
    const { message } = await failure(resolveMigration(url, broken, resolution, { folder }));
    t.match(message, 'has not failed', resolution);
  }
});

test('only a migration that failed can be settled', async (t) => {
  const { url } = await testDatabase(t);
  const [first = ''] = shipped;
  t.match((await failure(resolveMigration(url, first, 'rolled-back'))).message, 'has not failed');
  t.match((await failure(resolveMigration(url, first, 'applied'))).message, 'has not failed');
  const { url: empty } = await testDatabase(t, { migrated: false });
  t.match((await failure(resolveMigration(empty, first, 'applied'))).message, 'has not failed');
  t.same((await migrate(empty)).applied, shipped, 'and nothing was recorded');
});

test(
  'two processes migrate through PgBouncer in transaction mode, and leave no lock behind',
  { skip: toolsMissing('pgbouncer', 'bash') },
  async (t) => {
    const { url } = await testDatabase(t, { migrated: false });
    const bouncer = await startPgBouncer(t, url, 4);
    const folder = copiedMigrations(t);
    const name = '29990101000000_index';
    addMigration(folder, name, 'CREATE INDEX CONCURRENTLY "tokens_name" ON "tokens" ("name")');
    const results = await Promise.all([1, 2].map(() => migrate(bouncer.url, { folder })));
    t.same(results.map(({ applied }) => applied).flat(), [...shipped, name]);
    t.same(
      await migrate(url, { folder }),
      { applied: [], changed: [], keyed: 0 },
      'no connection to the server holds the lock',
    );
  },
);
