import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { migrationNames, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';
import { createMigration, CreateMigrationError, faultsOf } from './create-migration.ts';
import { testFolder } from './folder.ts';
import { testDatabase } from './postgres.ts';

const shipped = migrationNames(shippedMigrations());

/** A folder with the first `count` migrations. */
function migrations(t: Test, count: number): string {
  const folder = testFolder(t);
  for (const name of shipped.slice(0, count)) {
    cpSync(join(shippedMigrations(), name), join(folder, name), { recursive: true });
  }
  return folder;
}

async function create(t: Test, name: string, folder: string, now = new Date('2999-01-02T03:04:05Z')) {
  const { url } = await testDatabase(t, { migrated: false });
  return createMigration(url, name, { folder, now });
}

const readSql = (folder: string, name = '') => readFileSync(join(folder, name, 'migration.sql'), 'utf8');

test('writes the migration that leads from the earlier ones to schema.prisma', async (t) => {
  const folder = migrations(t, shipped.length);
  const earlier = readSql(folder, shipped[0]).replace('    "rotated_at" TIMESTAMPTZ(3),\n', '');
  writeFileSync(join(folder, shipped[0] ?? '', 'migration.sql'), earlier);
  const name = await create(t, 'the_rest', folder);
  t.equal(name, '29990102030405_the_rest');
  const sql = readSql(folder, name);
  t.match(
    sql,
    /^SET LOCAL lock_timeout = '2s';\n\n[^]*ALTER TABLE "service_clients" ADD COLUMN +"rotated_at" TIMESTAMPTZ\(3\);/,
  );
  t.notMatch(sql, 'CREATE TABLE');
  t.equal(
    await create(t, 'nothing', folder, new Date('2999-01-02T03:04:06Z')),
    undefined,
    'the migration leads to schema.prisma',
  );
  t.same(migrationNames(folder), [...shipped, name]);
});

test('a migration limits its waits, changes no rows, and leaves its transaction open', async (t) => {
  for (const name of shipped) t.same(faultsOf(readSql(shippedMigrations(), name)), [], name);
  const altering = '-- Why; not how.\nALTER TABLE "users" ADD COLUMN "phone" TEXT;\n';
  for (const waiting of [
    altering,
    'DROP INDEX "one";',
    'ALTER INDEX "one" RENAME TO "two";',
    'ANALYZE "users";',
    'CREATE INDEX "one" ON "users"("id");',
    'CREATE TRIGGER "one" BEFORE UPDATE OF "id" ON "users" FOR EACH ROW EXECUTE FUNCTION "one"();',
    'CREATE TABLE "one" ("id" INTEGER REFERENCES "users"("id") ON DELETE CASCADE);',
  ])
    t.match(faultsOf(waiting), [/^waits for a table/], waiting);
  t.same(faultsOf('CREATE TABLE "one" ("id" INTEGER); CREATE INDEX "two" ON "one"("id");'), []);
  const limited = `-- Why.\nSET LOCAL lock_timeout = '2s';\n${altering}`;
  const inside = 'BEGIN UPDATE users SET name = NULL; DELETE FROM users; END';
  t.same(
    faultsOf(`${limited}CREATE FUNCTION one() RETURNS trigger LANGUAGE plpgsql AS $$ ${inside} $$;`),
    [],
  );
  for (const change of [
    'update "users" SET "phone" = NULL;',
    'DELETE FROM "users"',
    'INSERT INTO "tokens" SELECT * FROM "users"',
    `DO $x$ ${inside} $x$;`,
    'WITH one AS (DELETE FROM users) SELECT 1',
  ])
    t.match(faultsOf(limited + change), [/^changes rows/], change);
  t.match(faultsOf(`${limited}COMMIT;`), [/^ends the transaction/]);
  t.same(faultsOf('CREATE INDEX CONCURRENTLY "one" ON "users"("id");'), []);
  t.match(faultsOf('SELECT 1; CREATE INDEX CONCURRENTLY "one" ON "users"("id");'), [/^has more than one/]);

  const folder = migrations(t, shipped.length);
  mkdirSync(join(folder, '29990101000000_change'));
  writeFileSync(join(folder, '29990101000000_change', 'migration.sql'), 'UPDATE "users" SET "name" = NULL;');
  await t.rejects(create(t, 'next', folder), new CreateMigrationError(), 'no other one is written after it');
});
