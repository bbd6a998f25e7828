import { cpSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { migrationNames, shippedMigrations } from '../../../src/infra/postgres/migration-files.ts';
import { missingMigrations } from '../../../src/infra/postgres/schema-version.ts';
import { aClient } from '../../support/begun.ts';
import { testFolder } from '../../support/folder.ts';
import { testDatabase } from '../../support/postgres.ts';

async function aDatabase(t: Test, migrated = true) {
  const client = await aClient(t, (await testDatabase(t, { migrated })).url);
  return async (sql: string) => (await client.query<{ migration_name: string }>(sql)).rows;
}

test('an empty database lacks every migration', async (t) => {
  const missing = await missingMigrations(await aDatabase(t, false));
  t.same(missing, migrationNames(shippedMigrations()));
  t.ok(missing.length > 0);
});

test('migrations that are newer than the database, failed or were rolled back are missing, and no others', async (t) => {
  const query = await aDatabase(t);
  t.same(await missingMigrations(query), []);
  const folder = testFolder(t);
  cpSync(shippedMigrations(), folder, { recursive: true });
  mkdirSync(join(folder, '29990101000000_newer'));
  t.same(await missingMigrations(query, folder), ['29990101000000_newer']);
  await query(`INSERT INTO _prisma_migrations (id, checksum, migration_name, finished_at)
    VALUES ('newer', '', '29990101000000_of_a_newer_build', now())`);
  t.same(await missingMigrations(query), [], 'a database that is newer than the code');
  await query('UPDATE _prisma_migrations SET rolled_back_at = now()');
  t.same(await missingMigrations(query), migrationNames(shippedMigrations()));
  await query('UPDATE _prisma_migrations SET rolled_back_at = NULL, finished_at = NULL');
  t.same(await missingMigrations(query), migrationNames(shippedMigrations()));
});
