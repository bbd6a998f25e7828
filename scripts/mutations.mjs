// `npm run test:mutations [-- NAME…]`: plants one mistake at a time and expects a test to fail. Works on copies of dist/,
// never on the tree itself. planted-mutations.mjs lists the mistakes; lua-mutants.mjs makes more of them in the Lua
// scripts by rule, because Stryker does not know Lua.
// `--check` tests nothing: it says which mistakes name a line that has changed since.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { transform } from 'esbuild';
import { luaMutants } from './lua-mutants.mjs';
import { mutations, pathOf, pathOfTest } from './planted-mutations.mjs';

/** Seconds: for a test without a mutation, and the least for one with a mutation. */
const LONGEST = 300;
const LEAST = 15;

/** What tests see of the caller's environment: any other variable, like DATABASE_URL, would change what they test. */
const PASSED = /^(PATH|HOME|TMPDIR|TEST_.*)$/;

const root = new URL('..', import.meta.url).pathname;
const isCheck = process.argv[2] === '--check';
const filters = isCheck ? [] : process.argv.slice(2);
const chosen = [...mutations, ...luaMutants(root)].filter(
  ({ file, name }) => filters.length === 0 || filters.some((text) => `${file} ${name}`.includes(text)),
);
if (chosen.length === 0) fail(`no mutation matches ${filters.join(' ')}`);
for (const { file, find } of chosen) if (find !== undefined) findOnce(file, find);
if (isCheck) process.exit();

await import('./build.mjs');

const copies = Array.from({ length: availableParallelism() }, makeCopy);
process.on('exit', () => copies.forEach((copy) => rmSync(copy, { recursive: true, force: true })));

/** Seconds that a test may take with a mutation, which may make it wait for ever. */
const limits = new Map();
await inCopies(new Set(chosen.flatMap(({ tests }) => tests)), async (copy, test) => {
  const since = performance.now();
  const { passed, output } = await run(copy, test, LONGEST);
  limits.set(test, LEAST + Math.ceil(2 * secondsSince(since)));
  if (!passed) fail(`without any mutation, ${test} fails:\n${output}`);
});

let survivors = 0;
await inCopies(chosen, async (copy, mutation) => {
  const since = performance.now();
  const caughtBy = await plant(copy, mutation);
  if (!caughtBy) survivors++;
  const verdict = caughtBy ? `caught by ${caughtBy}` : 'SURVIVED';
  process.stdout.write(
    `${mutation.file}: ${mutation.name}: ${verdict}, ${secondsSince(since).toFixed(1)} s\n`,
  );
});
process.stdout.write(`${chosen.length} mutations, ${survivors} survived\n`);
process.exit(survivors === 0 ? 0 : 1);

/** Does a piece of work for each item. The copies of dist/ take them in turn. */
async function inCopies(items, work) {
  const left = [...items];
  await Promise.all(
    copies.map(async (copy) => {
      while (left.length > 0) await work(copy, left.shift());
    }),
  );
}

function secondsSince(start) {
  return (performance.now() - start) / 1000;
}

function makeCopy() {
  const copy = mkdtempSync(join(tmpdir(), 'latchkey-mutations-'));
  cpSync(join(root, 'dist'), join(copy, 'dist'), { recursive: true });
  cpSync(join(root, 'package.json'), join(copy, 'package.json'));
  symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
  symlinkSync(join(root, 'prisma'), join(copy, 'prisma'));
  symlinkSync(join(root, 'docs'), join(copy, 'docs'));
  symlinkSync(join(root, 'packages'), join(copy, 'packages'));
  return copy;
}

/** Plants a mutation, runs its tests, restores the file. @returns the first test that failed. */
async function plant(copy, { file, tests, ...mutation }) {
  const mutant =
    mutation.mutant ?? findOnce(file, mutation.find).replace(mutation.find, () => mutation.replace);
  const target = join(copy, 'dist', pathOf(file).replace(/\.ts$/, '.js'));
  const original = readFileSync(target);
  writeFileSync(target, file.endsWith('.ts') ? await compile(mutant) : mutant);
  let caughtBy;
  for (const test of tests) {
    if ((await run(copy, test, limits.get(test))).passed) continue;
    caughtBy = test;
    break;
  }
  writeFileSync(target, original);
  return caughtBy;
}

/** @returns the file's text */
function findOnce(file, find) {
  const source = readFileSync(join(root, pathOf(file)), 'utf8');
  if (source.split(find).length !== 2)
    fail(
      `${pathOf(file)} must hold this text once. Adapt or remove it in scripts/planted-mutations.mjs:\n${find}`,
    );
  return source;
}

/** Ignores types: a test has to catch the mistake. esbuild leaves the names of imported files, which tsc rewrites. */
async function compile(source) {
  const compilerOptions = { verbatimModuleSyntax: true };
  const { code } = await transform(source, {
    loader: 'ts',
    target: 'es2023',
    tsconfigRaw: { compilerOptions },
  });
  return code.replace(/(?<=\b(?:from|import) ?\(?"\.[^"]*)\.ts(?=")/g, '.js');
}

/**
 * CI=true skips nothing, and the seed makes the model test repeat the same histories.
 * @param limit seconds.
 */
async function run(copy, test, limit) {
  const child = spawn(process.execPath, [join('dist', pathOfTest(test))], {
    cwd: copy,
    env: {
      ...Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name))),
      CI: 'true',
      TAP_BAIL: '1',
      TAP_TIMEOUT: String(limit),
      TEST_SCALE: '0.05',
      TEST_SEED: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: (limit + 10) * 1000,
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
