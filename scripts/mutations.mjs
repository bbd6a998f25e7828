// `npm run test:mutations [NAME…]`: plants one mistake at a time and expects some test to fail. Works on a copy of
// dist/: the tree itself is never touched. The mistakes stand in planted-mutations.mjs.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { mutations } from './planted-mutations.mjs';

const root = new URL('..', import.meta.url).pathname;
const filters = process.argv.slice(2);
const chosen = mutations.filter(
  ({ file, name }) => filters.length === 0 || filters.some((text) => `${file} ${name}`.includes(text)),
);
if (chosen.length === 0) fail('no mutation matches');

await import('./build.mjs');

const copy = mkdtempSync(join(tmpdir(), 'latchkey-mutations-'));
process.on('exit', () => rmSync(copy, { recursive: true, force: true }));
cpSync(join(root, 'dist'), join(copy, 'dist'), { recursive: true });
cpSync(join(root, 'package.json'), join(copy, 'package.json'));
symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));

for (const test of new Set(chosen.flatMap(({ tests }) => tests))) {
  const { passed, output } = run(test);
  if (!passed) fail(`without any mutation, ${test} fails:\n${output}`);
}

let survivors = 0;
for (const mutation of chosen) {
  const caughtBy = plant(mutation);
  if (!caughtBy) survivors++;
  const verdict = caughtBy ? `caught by ${caughtBy}` : 'SURVIVED';
  process.stdout.write(`${mutation.file}: ${mutation.name}: ${verdict}\n`);
}
process.stdout.write(`${chosen.length} mutations, ${survivors} survived\n`);
process.exit(survivors === 0 ? 0 : 1);

/** Plants a mutation, runs its tests, takes it back. @returns the first that failed. */
function plant({ file, find, replace, tests }) {
  const source = readFileSync(join(root, 'src', file), 'utf8');
  if (source.split(find).length !== 2) fail(`${file} must hold this text once:\n${find}`);
  const mutant = source.replace(find, () => replace);
  const target = join(copy, 'dist/src', file.replace(/\.ts$/, '.js'));
  const original = readFileSync(target);
  writeFileSync(target, file.endsWith('.ts') ? compile(mutant) : mutant);
  const caughtBy = tests.find((test) => !run(test).passed);
  writeFileSync(target, original);
  return caughtBy;
}

/** Types are not looked at: the mistake is to be found by a test. */
function compile(source) {
  const compilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    rewriteRelativeImportExtensions: true,
  };
  return ts.transpileModule(source, { compilerOptions }).outputText;
}

/** With CI=true nothing is left out, and the seed makes the model test play the same histories every time. */
function run(test) {
  const { status, signal, stdout, stderr } = spawnSync(process.execPath, [`dist/test/${test}.test.js`], {
    cwd: copy,
    env: { ...process.env, CI: 'true', TEST_SCALE: '0.05', TEST_SEED: '1' },
    encoding: 'utf8',
    timeout: 60_000,
  });
  return { passed: status === 0, output: `${stdout}${stderr}${signal ?? ''}` };
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
