import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test, type Test } from 'tap';

const SCRIPTS = new URL('../../../scripts/calls/', import.meta.url).pathname;

const FIVE = `
export const one = () => 1;
export function two() { return three(); }
function three() { return 3; }
export class Four { four() { return 4; } }
`;

const SERVER = "import { one } from './one.js';\nif (process.argv[2]) one();\n";

test('a file passes if tests call its functions, from any process', (t) => {
  const { run, report } = project(t, { 'five.js': FIVE, 'deep/one.js': 'export const one = () => 1;' });
  run("import { two, Four } from './dist/src/five.js'; two(); new Four().four();");
  run("import { one } from './dist/src/five.js'; one();");
  run("import { one } from './dist/src/deep/one.js'; one(); process.exit(0);");
  const { status, stdout } = report();
  t.equal(status, 0, stdout);
  t.equal(stdout, '2 source files, 0 with less than 60% of their functions called\n');
  t.end();
});

test('a file that no test loads fails', (t) => {
  const { run, report } = project(t, { 'five.js': FIVE, 'new/thing.js': 'export const LIMIT = 5;' });
  run("import { one, two, Four } from './dist/src/five.js'; one(); two(); new Four().four();");
  const { status, stdout } = report();
  t.equal(status, 1);
  t.match(stdout, /^src\/new\/thing\.ts: no test loads it\n/);
  t.end();
});

test('a file whose functions tests load but do not call fails and is named', (t) => {
  const { run, report } = project(t, { 'one.js': 'export const one = () => 1;', 'server.js': SERVER });
  run("import './dist/src/server.js';");
  const { status, stdout } = report();
  t.equal(status, 1);
  t.equal(
    stdout,
    'src/one.ts: tests call 0% of its functions, not: one\n2 source files, 1 with less than 60% of their functions called\n',
  );
  t.end();
});

test('the package for other services is counted too', (t) => {
  const { run, report } = project(t, {
    'five.js': FIVE,
    '../packages/verifier/src/one.js': 'export const one = () => 1;',
  });
  run("import { one, two, Four } from './dist/src/five.js'; one(); two(); new Four().four();");
  t.match(report(), { status: 1, stdout: /^packages\/verifier\/src\/one\.ts: no test loads it\n/ });
  run("import { one } from './dist/packages/verifier/src/one.js'; one();");
  t.match(report(), { status: 0, stdout: /^2 source files, 0 / });
  t.end();
});

test('types, Prisma’s generated files, and modules without functions need no test', (t) => {
  const { run, report } = project(t, {
    'types.js': '// What a token is.\nexport {};\n//# sourceMappingURL=types.js.map\n',
    'generated/client.js': 'export const client = () => 1;',
    'limits.js': 'export const LIMIT = 5;',
  });
  run("import './dist/src/limits.js';");
  const { status, stdout } = report();
  t.equal(status, 0, stdout);
  t.match(stdout, /^1 source files, 0 /);
  t.end();
});

test('a copy of the build counts for the functions that the build has, another release does not', (t) => {
  const { run, report, copy } = project(t, { 'five.js': FIVE });
  copy('same', { 'five.js': FIVE });
  copy('older', { 'five.js': `${FIVE}export function gone() {}\nexport function lost() {}\n` });
  run("import './dist/src/five.js';");
  run("import { one, two, Four } from './same/dist/src/five.js'; one(); two(); new Four().four();");
  run("import './older/dist/src/five.js';");
  const { status, stdout } = report();
  t.equal(status, 0, stdout);
  t.end();
});

test('an empty recording is a failure', (t) => {
  const { report } = project(t, {});
  t.equal(report().status, 1);
  t.end();
});

function project(t: Test, sources: Record<string, string>) {
  const root = t.testdir({ 'package.json': '{ "type": "module" }', dist: { src: {} }, coverage: {} });
  const copy = (folder: string, copied: Record<string, string>) => {
    for (const [name, source] of Object.entries(copied)) {
      const file = join(root, folder, 'dist/src', name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, source);
    }
  };
  copy('.', sources);
  const coverage = join(root, 'coverage');
  return {
    copy,
    /** Runs the code of a test file in a recording process. */
    run: (script: string) => {
      const file = join(root, `test-${readdirSync(root).length}.js`);
      writeFileSync(file, script);
      const { status, stderr } = spawnSync(process.execPath, [`--import=${SCRIPTS}record.mjs`, file], {
        env: { TEST_COVERAGE: coverage },
        encoding: 'utf8',
      });
      t.equal(status, 0, stderr);
    },
    report: () =>
      spawnSync(process.execPath, [`${SCRIPTS}report.mjs`, coverage, `${root}/dist/`], {
        encoding: 'utf8',
      }),
  };
}
