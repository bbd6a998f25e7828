// `npm test [NAME…]`: builds, then runs the compiled tests with tap; says at the end what was left out and why.
// Names are matched against the compiled files: `npm test -- rotation`.
// `npm run test:fault [NAME…]` does the same with the tests of test/fault, and `npm run test:container` with those of
// test/container; `npm test` leaves both out.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { closingLines, makeBriefly, readTap } from './tap-summary.mjs';

const root = new URL('..', import.meta.url).pathname;
const suites = ['fault', 'container'];
const suite = suites.find((name) => process.argv[2] === `--${name}`);
/** The longest of the fault tests go first: begun last, one of them would run alone for minutes. */
const longest = ['replicas', 'revocations', 'rolling', 'upgrade', 'alerts'];
const filters = process.argv.slice(suite ? 3 : 2);

await import('./build.mjs');

const files = testFiles(join(root, 'dist/test')).filter(
  (file) =>
    suites.find((name) => file.startsWith(`dist/test/${name}/`)) === suite &&
    (filters.length === 0 || filters.some((filter) => file.includes(filter))),
);
if (files.length === 0) {
  process.stderr.write('no test file matches\n');
  process.exit(1);
}
process.exit(await run(files));

async function run(names) {
  const { status, output } = await (process.stdout.isTTY ? runWatched(names) : runUnwatched(names));
  const result = readTap(output);
  // What a suite needs and cannot find is a failure in CI.
  const refused = process.env.CI === 'true' ? result.leftOut : [];
  process.stdout.write(`\n${closingLines(result).join('\n')}\n`);
  if (refused.length > 0) process.stderr.write(`CI=true, and ${refused.length} tests were left out\n`);
  const ranSome = (result.counts?.pass ?? 0) > 0;
  return status === 0 && ranSome && refused.length === 0 ? 0 : 1;
}

/** On a terminal tap shows its own progress, and writes what it says to a file as well. */
async function runWatched(names) {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-tap-'));
  const file = join(folder, 'output.tap');
  const [status] = await once(startTap([`--output-file=${file}`, ...names], 'inherit'), 'close');
  const output = existsSync(file) ? readFileSync(file, 'utf8') : '';
  rmSync(folder, { recursive: true, force: true });
  return { status, output };
}

/** Elsewhere a line a file and the failures are enough. */
async function runUnwatched(names) {
  const child = startTap(['--reporter=tap', ...names], 'pipe');
  const ended = once(child, 'close');
  const isWorthShowing = makeBriefly();
  let output = '';
  for await (const line of createInterface({ input: child.stdout })) {
    output += `${line}\n`;
    if (isWorthShowing(line)) process.stdout.write(`${line}\n`);
  }
  const [status] = await ended;
  return { status, output };
}

function startTap(args, stdout) {
  const tap = join(root, 'node_modules/tap/dist/esm/run.mjs');
  const stdio = ['ignore', stdout, 'inherit'];
  const patience = suite ? ['--timeout=900'] : [];
  // Most of the time tests wait for a store or a process, those of faults above all; tap would leave cores unused.
  const cores = Math.max(2, Math.min(availableParallelism(), 8));
  const jobs = `--jobs=${{ container: 1, fault: cores + 1 }[suite] ?? cores}`;
  return spawn(process.execPath, [tap, 'run', jobs, ...patience, ...args], { cwd: root, stdio });
}

function testFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join('dist/test', name))
    .filter((name) => existsSync(join(root, name.replace(/^dist\//, '').replace(/\.js$/, '.ts'))))
    .sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

function rank(file) {
  const found = longest.indexOf(/^dist\/test\/fault\/(\w+)\.test\.js$/.exec(file)?.[1]);
  return found === -1 ? longest.length : found;
}
