import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { testDatabase } from './postgres.ts';
import { schemaDifference } from './schema-engine.ts';

test('schema.prisma and the migrations lead to the same schema', async (t) => {
  const { url } = await testDatabase(t);
  t.equal(await schemaDifference(url), '');
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
