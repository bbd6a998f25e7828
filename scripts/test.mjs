// `npm test [NAME…]` builds, says which stores it uses, runs the compiled tests, and lists skipped tests with their
// reasons at the end.
// `npm test -- rotation` runs all test files whose path contains the name, except the fault and container suites.
// `--SUITE` runs another suite of test-suites.mjs, `--all` all except fault and container. Several suites share a queue.
// Names may follow.
// With TEST_RAN=FILE it appends a line for each passed test: its file, a tab, its name. With TEST_DURATIONS=FILE it
// appends a line for each file: its path, a tab, its seconds.
import { appendFileSync, existsSync, readdirSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { runFiles } from './run-files.mjs';
import { briefly, closingLines } from './tap-summary.mjs';
import { describeStores, openTestDatabase } from './test-database.mjs';
import { testEnvironment } from './test-environment.mjs';
import { durationOf, isIn, needsMachine, readArguments, timeoutOf } from './test-suites.mjs';

const root = new URL('..', import.meta.url).pathname;
const { suites, filters } = readArguments(process.argv.slice(2));
/** Suites that install packages. */
const network = ['container', 'e2e', 'all'].some((suite) => suites.includes(suite));
const environment = testEnvironment(process.env, { network });
// This process must not see the other variables either: the database driver reads PGSSLMODE, for example.
for (const name of Object.keys(process.env)) if (!(name in environment)) delete process.env[name];

if (suites.includes('lab')) process.argv.push('--lab');
await import('./build.mjs');

const files = testFiles(suites.includes('lab') ? ['dist/test', 'dist/lab'] : ['dist/test']).filter(
  (file) =>
    suites.some((suite) => isIn(suite, file, filters.length > 0)) &&
    (filters.length === 0 || filters.some((filter) => file.includes(filter))),
);
if (files.length === 0) {
  process.stderr.write('no test file matches; names are parts of a path below test/\n');
  process.exit(1);
}
const database = await openTestDatabase(environment);
process.stderr.write(`${await describeStores(database.url, environment)}\n`);
const code = await run(files);
await database.close();
process.exit(code);

async function run(names) {
  const progress = makeProgress(names.length);
  const cores = Math.max(2, Math.min(availableParallelism(), 8));
  // Most tests wait for a store or a process. Those of faults load the service meanwhile.
  const jobs = suites.includes('fault') ? cores : cores + 1;
  const options = {
    timeoutOf,
    env: {
      ...environment,
      ...(database.url && { TEST_DATABASE_URL: database.url }),
    },
    cwd: root,
    onStart: progress.start,
    onEnd: progress.end,
  };
  const results = [
    ...(await runFiles(
      names.filter((file) => !needsMachine(file)),
      { ...options, jobs },
    )),
    ...(await runFiles(names.filter(needsMachine), { ...options, jobs: 1 })),
  ];
  // In CI, a missing program is a failure.
  const refused = process.env.CI === 'true' ? results.flatMap(({ leftOut }) => leftOut) : [];
  const wrong = results.filter(({ problem }) => problem !== null);
  if (environment.TEST_RAN) recordPassed(environment.TEST_RAN, results);
  if (environment.TEST_DURATIONS) {
    const lines = results.map(({ file, seconds }) => `${file}\t${seconds.toFixed(0)}\n`);
    appendFileSync(environment.TEST_DURATIONS, lines.join(''));
  }
  process.stdout.write(`\n${closingLines(results).join('\n')}\n`);
  if (wrong.length > 0) process.stderr.write(`failed: ${wrong.map(({ file }) => file).join(' ')}\n`);
  if (refused.length > 0)
    process.stderr.write(`CI=true does not allow skipped tests, and ${refused.length} were skipped\n`);
  const ranSome = results.some(({ counts }) => counts.pass > 0);
  return wrong.length === 0 && ranSome && refused.length === 0 ? 0 : 1;
}

function recordPassed(path, results) {
  const lines = results.flatMap(({ file, passed }) => passed.map((name) => `${sourceOf(file)}\t${name}\n`));
  appendFileSync(path, lines.join(''));
}

/** Prints a block of lines for each ended file, and on a terminal a line that names the running files. */
function makeProgress(count) {
  const running = new Set();
  let ended = 0;
  const isTerminal = process.stdout.isTTY;
  const clear = isTerminal ? '\r\x1b[K' : '';
  const show = () => {
    const names = [...running].map((file) => file.replace(/^dist\/test\/|\.test\.js$/g, '')).join(', ');
    const line = `${ended} of ${count}; running: ${names}`;
    if (isTerminal) process.stdout.write(`${clear}${line.slice(0, (process.stdout.columns ?? 80) - 1)}`);
  };
  return {
    start(file) {
      running.add(file);
      show();
    },
    end(result) {
      running.delete(result.file);
      ended++;
      process.stdout.write(`${clear}${briefly(result).join('\n')}\n`);
      if (running.size > 0) show();
    },
  };
}

function testFiles(folders) {
  const files = folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)),
    )
    .filter((name) => name.endsWith('.test.js') && existsSync(join(root, sourceOf(name))));
  // Started last, a long file would run alone at the end.
  return files.sort((one, other) => durationOf(other) - durationOf(one) || (one < other ? -1 : 1));
}

function sourceOf(file) {
  return file.replace(/^dist\//, '').replace(/\.js$/, '.ts');
}
