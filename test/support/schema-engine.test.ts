import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { testDatabase, withClient } from './postgres.ts';
import { schemaDifference } from './schema-engine.ts';

test('schema.prisma and the migrations lead to the same schema', async (t) => {
  const { url } = await testDatabase(t);
  t.equal(await schemaDifference(url), '');
});

test('finds a difference, even in tables with constraints', async (t) => {
  const { url } = await testDatabase(t);
  await withClient(url, (client) =>
    client.query(`CREATE TABLE "stray" ("id" INT PRIMARY KEY CHECK ("id" > 0), "name" TEXT NOT NULL);
      ALTER TABLE "users" DROP COLUMN "enabled_at"`),
  );
  const sql = await schemaDifference(url);
  t.match(sql, 'DROP TABLE "stray"');
  t.match(sql, /ALTER TABLE "users" ADD COLUMN\s+"enabled_at"/);
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
