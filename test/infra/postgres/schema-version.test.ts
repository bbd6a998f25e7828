import { cpSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { test, type Test } from 'tap';
import { migrationNames, shippedMigrations } from '../../../src/infra/postgres/migration-files.ts';
import { missingMigrations } from '../../../src/infra/postgres/schema-version.ts';
import { testDatabase } from '../../support/postgres.ts';

async function queryOn(t: Test, url: string) {
  const client = new pg.Client(url);
  await client.connect();
  t.teardown(() => client.end());
  return async (sql: string) => (await client.query<{ migration_name: string }>(sql)).rows;
}

test('a migrated database lacks nothing', async (t) => {
  const { url } = await testDatabase(t);
  t.same(await missingMigrations(await queryOn(t, url)), []);
});

test('an empty database lacks every migration', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const missing = await missingMigrations(await queryOn(t, url));
  t.same(missing, migrationNames(shippedMigrations()));
  t.ok(missing.length > 0);
});

test('a migration that failed or was rolled back is missing', async (t) => {
  const { url } = await testDatabase(t);
  const query = await queryOn(t, url);
  await query('UPDATE _prisma_migrations SET rolled_back_at = now()');
  t.same(await missingMigrations(query), migrationNames(shippedMigrations()));
  await query('UPDATE _prisma_migrations SET rolled_back_at = NULL, finished_at = NULL');
  t.same(await missingMigrations(query), migrationNames(shippedMigrations()));
});

test('only the migrations that are newer than the database are missing', async (t) => {
  const { url } = await testDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), 'lk-migrations-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  cpSync(shippedMigrations(), folder, { recursive: true });
  mkdirSync(join(folder, '29990101000000_newer'));
  t.same(await missingMigrations(await queryOn(t, url), folder), ['29990101000000_newer']);
});

test('a database that is newer than the code lacks nothing', async (t) => {
  const { url } = await testDatabase(t);
  const query = await queryOn(t, url);
  await query(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
    VALUES ('newer', '', '29990101000000_newer', now())`);
  t.same(await missingMigrations(query), []);
});
