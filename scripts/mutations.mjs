// `npm run test:mutations [-- NAME…]`: plants one mistake at a time and expects a test to fail. Works on copies of dist/,
// never on the tree itself. planted-mutations.mjs lists the mistakes; lua-mutants.mjs makes more of them in the Lua
// scripts by rule, because Stryker does not know Lua.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import ts from 'typescript';
import { luaMutants } from './lua-mutants.mjs';
import { mutations } from './planted-mutations.mjs';
import { testEnvironment } from './test-environment.mjs';

const root = new URL('..', import.meta.url).pathname;
const filters = process.argv.slice(2);
const chosen = [...mutations, ...luaMutants(root)].filter(
  ({ file, name }) => filters.length === 0 || filters.some((text) => `${file} ${name}`.includes(text)),
);
if (chosen.length === 0) fail('no mutation matches');

await import('./build.mjs');

const copies = Array.from({ length: availableParallelism() }, makeCopy);
process.on('exit', () => copies.forEach((copy) => rmSync(copy, { recursive: true, force: true })));

for (const test of new Set(chosen.flatMap(({ tests }) => tests))) {
  const { passed, output } = await run(copies[0], test);
  if (!passed) fail(`without any mutation, ${test} fails:\n${output}`);
}

const left = [...chosen];
let survivors = 0;
await Promise.all(
  copies.map(async (copy) => {
    for (let mutation = left.shift(); mutation; mutation = left.shift()) {
      const caughtBy = await plant(copy, mutation);
      if (!caughtBy) survivors++;
      const verdict = caughtBy ? `caught by ${caughtBy}` : 'SURVIVED';
      process.stdout.write(`${mutation.file}: ${mutation.name}: ${verdict}\n`);
    }
  }),
);
process.stdout.write(`${chosen.length} mutations, ${survivors} survived\n`);
process.exit(survivors === 0 ? 0 : 1);

function makeCopy() {
  const copy = mkdtempSync(join(tmpdir(), 'latchkey-mutations-'));
  cpSync(join(root, 'dist'), join(copy, 'dist'), { recursive: true });
  cpSync(join(root, 'package.json'), join(copy, 'package.json'));
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  symlinkSync(join(root, 'prisma'), join(copy, 'prisma'));
  return copy;
}

/** Plants a mutation, runs its tests, restores the file. @returns the first test that failed. */
async function plant(copy, { file, tests, ...mutation }) {
  const mutant = mutation.mutant ?? replaceOnce(file, mutation);
  const target = join(copy, 'dist/src', file.replace(/\.ts$/, '.js'));
  const original = readFileSync(target);
  writeFileSync(target, file.endsWith('.ts') ? compile(mutant) : mutant);
  let caughtBy;
  for (const test of tests) {
    if ((await run(copy, test)).passed) continue;
    caughtBy = test;
    break;
  }
  writeFileSync(target, original);
  return caughtBy;
}

function replaceOnce(file, { find, replace }) {
  const source = readFileSync(join(root, 'src', file), 'utf8');
  if (source.split(find).length !== 2) fail(`${file} must hold this text once:\n${find}`);
  return source.replace(find, () => replace);
}

/** Ignores types: a test has to catch the mistake. */
function compile(source) {
  const compilerOptions = {
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.ESNext,
    verbatimModuleSyntax: true,
    rewriteRelativeImportExtensions: true,
  };
  return ts.transpileModule(source, { compilerOptions }).outputText;
}

/** CI=true skips nothing, and the seed makes the model test repeat the same histories. */
async function run(copy, test) {
  const child = spawn(process.execPath, [`dist/test/${test}.test.js`], {
    cwd: copy,
    env: { ...testEnvironment(process.env), CI: 'true', TAP_BAIL: '1', TEST_SCALE: '0.05', TEST_SEED: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 60_000,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text));
  const [status, signal] = await once(child, 'close');
  return { passed: status === 0, output: `${output}${signal ?? ''}` };
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
