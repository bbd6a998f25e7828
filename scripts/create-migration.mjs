// `npm run migration:create NAME` writes prisma/migrations/TIMESTAMP_NAME/migration.sql: the difference between the
// migrations so far and schema.prisma. It works in a database of its own on the server that the tests use.
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const [name, ...rest] = process.argv.slice(2);
if (name === undefined || rest.length > 0) {
  process.stderr.write('usage: npm run migration:create NAME\n');
  process.exit(2);
}

// An older build is enough. A new one could fail, because the code may not fit the changed schema yet.
if (!existsSync(join(root, 'dist/test/support/create-migration.js'))) await import('./build.mjs');
const { createMigration, CreateMigrationError } = await import('../dist/test/support/create-migration.js');
const { scratchDatabase } = await import('../dist/test/support/postgres.js');
const { openTestStores } = await import('../dist/test/support/test-stores.js');
const { MigrationError } = await import('../dist/src/infra/postgres/migrate.js');

const stores = await openTestStores(process.env);
const database = await scratchDatabase(stores.env.TEST_DATABASE_URL);
try {
  const created = await createMigration(database.url, name);
  const file = `prisma/migrations/${created}/migration.sql`;
  process.stdout.write(
    created === undefined
      ? 'the migrations lead to schema.prisma already: nothing to write\n'
      : `wrote ${file}: read it against docs/migrations.md, and edit it where needed\n`,
  );
} catch (error) {
  if (!(error instanceof CreateMigrationError || error instanceof MigrationError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
} finally {
  await database.drop();
  await stores.close();
}
