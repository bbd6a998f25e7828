// suite: tools
import { join } from 'node:path';
import { test } from 'tap';
import { ROOT } from './support/documents.ts';

interface Boundaries {
  check: (sources: Map<string, string>) => { imports: number; problems: string[] };
  lonelyHelpers: (tests: Map<string, string>) => string[];
  readSources: () => Map<string, string>;
  readTests: () => Map<string, string>;
}

const { check, lonelyHelpers, readSources, readTests } = (await import(
  join(ROOT, 'scripts/boundaries.mjs')
)) as Boundaries;

test('the sources follow the table', (t) => {
  const { imports, problems } = check(readSources());
  t.strictSame(problems, []);
  t.ok(imports > 1000, `${imports} imports`);
  t.end();
});

test('refuses an import that the table does not allow', (t) => {
  const sources = readSources();
  const [file, text] = ['src/app.ts', sources.get('src/app.ts') ?? ''];
  sources.set(file, `${text}\nimport './infra/redis/script-client.ts';\n`);
  t.strictSame(check(sources).problems, [`app-imports: ${file} -> src/infra/redis/script-client.ts`]);
  t.end();
});

test('refuses a clock of their own in the domain and in stores', (t) => {
  const sources = readSources();
  const add = (file: string, line: string) => sources.set(file, `${sources.get(file) ?? ''}\n${line}\n`);
  add('src/domain/tokens/claims.ts', 'void performance.now();');
  add('src/infra/redis/script-client.ts', 'void [Date.now(), performance.now()];');
  add('src/infra/memory/token-states.ts', 'void new Date();');
  t.strictSame(check(sources).problems.sort(), [
    'clock: src/domain/tokens/claims.ts reads performance',
    'clock: src/infra/memory/token-states.ts reads new Date()',
    'clock: src/infra/redis/script-client.ts reads Date.now',
  ]);
  t.end();
});

test('refuses whoever reads variables of the environment as they are', (t) => {
  const sources = readSources();
  const add = (file: string, line: string) => sources.set(file, `${sources.get(file) ?? ''}\n${line}\n`);
  add('src/cli/database.ts', "void (env.NODE_ENV === 'production');");
  add('src/cli/migrate.ts', 'const { NODE_ENV } = env;');
  add('src/server.ts', 'void process.env;');
  add('packages/agent/src/main.ts', 'void process.env[name];');
  t.strictSame(check(sources).problems.sort(), [
    'environment: packages/agent/src/main.ts reads process.env[',
    'environment: src/cli/database.ts reads env.',
    'environment: src/cli/migrate.ts reads } = env',
    'environment: src/server.ts reads process.env',
  ]);
  t.end();
});

test('refuses a small file with one importer, and accepts it with two', (t) => {
  const importing = (...importers: string[]) => {
    const sources = readSources();
    sources.set('src/domain/tokens/x.ts', 'export const x = 1;\n');
    for (const file of importers)
      sources.set(file, `import { x } from './x.ts';\n${sources.get(file) ?? ''}\nvoid x;\n`);
    return check(sources).problems;
  };
  const [one, two] = ['src/domain/tokens/claims.ts', 'src/domain/tokens/revoke.ts'] as const;
  t.strictSame(importing(one), [`splinter: src/domain/tokens/x.ts -> ${one}`]);
  t.strictSame(importing(one, two), []);
  t.end();
});

test('refuses a helper of all tests that serves one, also through another helper', (t) => {
  // Quoted names would make this file a reader.
  const [x, y] = [`test/support/x.ts`, `test/support/y.ts`];
  const serving = (...files: string[]) => {
    const tests = readTests();
    const add = (file: string, line: string) => tests.set(file, `${tests.get(file) ?? ''}\n${line}\n`);
    add(x, 'export const x = 1;');
    add(y, "import { x } from './x.ts';");
    for (const file of files) add(file, "void new URL('../support/y.js', import.meta.url);");
    return lonelyHelpers(tests);
  };
  const [one, two] = ['test/attack/lanes.test.ts', 'test/http/ops.test.ts'] as const;
  t.strictSame(
    serving(one),
    ['x', 'y'].map((name) => `helper: test/support/${name}.ts -> ${one}`),
  );
  t.strictSame(serving(one, two), []);
  t.end();
});
