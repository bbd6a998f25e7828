import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

const GOOD = `import { test } from 'tap';
test('a', (t) => { t.ok(true); t.ok(true); t.end(); });`;

const LEFT_OUT = `import { test } from 'tap';
test('needs it', { skip: 'no Redis' }, () => {});`;

/** Files that must fail a run, and why. */
const BAD: [why: string, source: string, says: RegExp][] = [
  [
    'an assertion fails',
    `import { test } from 'tap'; test('a', (t) => { t.ok(false); t.end(); });`,
    /1 failed/,
  ],
  ['it is empty', '', /exit code 0, and no summary/],
  ['it tries nothing', `import t from 'tap'; t.plan(0, 'for no reason');`, /it ran no test/],
  [
    'it hangs',
    `import t, { test } from 'tap'; t.setTimeout(500); test('a', () => new Promise(() => setInterval(() => {}, 1000)));`,
    /ended by SIG/,
  ],
  [
    'it ends badly after its tests',
    `${GOOD}\nprocess.on('exit', () => { process.exitCode = 7; });`,
    /exit code 7/,
  ],
];

test('counts passed tests over all files, prints a line per file, and exits with 0', (t) => {
  const { status, lines } = run(t, { 'http/a': GOOD, 'domain/b': GOOD });
  t.match(lines.slice(0, 2).sort(), [/^ok - test\/domain\/b\.test\.ts # \d/, /^ok - test\/http\/a/]);
  t.equal(lines.at(-1), '4 passed, 0 failed, 0 skipped');
  t.equal(status, 0);
  t.end();
});

test('a red, an empty and a hanging file fail a run', (t) => {
  const bad = BAD.map(([, source], i) => [`http/bad-${i}`, source] as const);
  const { status, lines } = run(t, { 'http/a': GOOD, ...Object.fromEntries(bad) });
  for (const [i, [why, , says]] of BAD.entries()) {
    const line = lines.find((text) => text.includes(`test/http/bad-${i}.test.ts`)) ?? '';
    t.ok(line.startsWith('not ok - ') && says.test(line), `${why}: ${line}`);
  }
  t.match(lines.at(-1), new RegExp(`^\\d+ passed, ${BAD.length} failed, 0 skipped$`));
  t.equal(status, 1);
  t.end();
});

test('reports skipped tests, and fails for them with CI=true', (t) => {
  const files = { 'http/a': GOOD, 'http/b': LEFT_OUT };
  const { status, lines } = run(t, files);
  t.strictSame(lines.slice(-4), [
    'left out, no Redis:',
    '  - test/http/b.test.ts: needs it',
    '',
    '2 passed, 0 failed, 1 skipped',
  ]);
  t.equal(status, 0);
  t.equal(run(t, files, { env: { CI: 'true' } }).status, 1);
  t.equal(run(t, { 'http/b': LEFT_OUT }).status, 1, 'nothing ran');
  t.end();
});

/** The runner's scripts in a project with these test files, without a build and a database. */
function run(t: Test, files: Record<string, string>, { env = {} }: { env?: Record<string, string> } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'lk-runner-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  cpSync(join(ROOT, 'scripts'), join(folder, 'scripts'), { recursive: true });
  for (const name of ['lab', 'packages']) mkdirSync(join(folder, name));
  writeFileSync(join(folder, 'scripts/build.mjs'), '');
  const noStores = `export const openTestStores = async () => ({ close: async () => {} });`;
  mkdirSync(join(folder, 'dist/test/support'), { recursive: true });
  writeFileSync(join(folder, 'dist/test/support/test-stores.js'), noStores);
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  for (const [name, source] of Object.entries(files)) {
    for (const path of [`dist/test/${name}.test.js`, `test/${name}.test.ts`]) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), source);
    }
  }
  const { status, stdout } = spawnSync(process.execPath, ['scripts/test.mjs'], {
    cwd: folder,
    env: bareEnvironment(env),
    encoding: 'utf8',
  });
  return { status, lines: stdout.trimEnd().split('\n') };
}
