// `npm test [-- --SUITE… NAME…]` builds, says which stores it uses, runs compiled test files, each in a Node process of
// its own (tap's runner takes three times as long), and lists skipped tests with their reasons at the end.
//
// A suite is a folder of test/; without one it is the core: every folder that FOLDERS does not name, and the tests of the
// packages. A test file's first line may say otherwise, by words with commas between: `// suite: e2e`, `alone` (it loads
// the machine, or an answer must come in time), `release` (only with `--release`, or by name). NAME is a part of a path;
// names alone select from every suite but fault, container and lab. Several suites share one queue. In the folder of a
// workspace (`npm test -w packages/verifier`), only its tests run.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, join, normalize, relative } from 'node:path';
import { performance } from 'node:perf_hooks';
import { clearTimeout } from 'node:timers';

/** Which folders belong to a suite, by suite. Suites start in this order: those with long files first. */
const FOLDERS = {
  fault: ['fault'],
  container: ['container'],
  fuzz: ['fuzz'],
  e2e: ['e2e', 'cli'],
  attack: ['attack'],
  model: ['model', 'proof', 'races'],
  browser: [],
  deploy: ['deploy', 'k8s'],
  lab: ['../lab'],
  core: [],
  tools: ['scripts'],
};
/** They break stores, build images, or test how we measure, and run only on request. */
const APART = ['fault', 'container', 'lab'];
/** The core's folders in `--quick`, in which it leaves out files that open a database. */
const QUICK = /^(test\/(domain|infra\/memory|config|runtime|http)|packages\/\w+\/test)\//;

/** What tests see of the caller's environment. Any other variable (DATABASE_URL, OTEL_*, npm's own) would change them. */
const ENVIRONMENT = [
  /^(PATH|HOME|USER|LOGNAME|TMPDIR|TERM|NO_COLOR|FORCE_COLOR|XDG_RUNTIME_DIR|CI|SCREENSHOTS)$/,
  /^(Path|PATHEXT|SystemRoot|windir|ComSpec|TEMP|TMP|USERPROFILE|APPDATA|LOCALAPPDATA)$/, // Windows
  /^(TEST|FUZZ|FEED|TAP)_/,
];
/** Access to a registry, for the suites that install packages. */
const NETWORK =
  /^(https?_proxy|no_proxy|ssl_cert_(file|dir)|node_extra_ca_certs|npm_config_(registry|cafile))$/i;
/** Milliseconds for a file that ran out of time to print what it waits for. */
const GRACE = 10_000;

const root = new URL('..', import.meta.url).pathname;
/** The folder that npm runs a workspace's script in; elsewhere, that of the project. */
const here = /^(packages\/\w+|lab|$)/.exec(relative(root, process.cwd()))?.[0] ?? '';
const words = process.argv.slice(2);
const names = words.filter((word) => !word.startsWith('--'));
const flags = words.filter((word) => word.startsWith('--')).map((word) => word.slice(2));
const unknown = flags.find((flag) => !(flag in FOLDERS) && !['all', 'quick', 'release'].includes(flag));
if (unknown !== undefined) fail(`there is no suite --${unknown}: ${Object.keys(FOLDERS).join(', ')}`);

const seen = ['container', 'e2e', 'all'].some((flag) => flags.includes(flag))
  ? [...ENVIRONMENT, NETWORK]
  : ENVIRONMENT;
// From this process too: the database's driver would read PGSSLMODE, for example.
for (const name of Object.keys(process.env))
  if (!seen.some((pattern) => pattern.test(name))) delete process.env[name];
if (flags.includes('lab')) process.argv.push('--lab');
await import('./build.mjs');

const files = ['test', 'packages', 'lab']
  .flatMap((folder) => readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)))
  .filter((path) => path.endsWith('.test.ts') && !path.includes('node_modules') && path.startsWith(here))
  .map(described)
  .filter(isChosen)
  .sort((one, other) => order(one) - order(other) || (one.path < other.path ? -1 : 1));
if (files.length === 0) fail('no test file matches; names are parts of a path');

const { openTestStores } = await import('../dist/test/support/test-stores.js');
const stores = await openTestStores(process.env);
process.stderr.write(`${stores.description}\n`);
const running = new Set();
const results = [];
// Ends the running files, which count as failed, and starts no other.
for (const signal of ['SIGTERM', 'SIGINT'])
  process.on(signal, () => {
    files.length = 0;
    for (const child of running) child.kill('SIGTERM');
  });
// Most tests wait for a store or a process. Those of faults load the service meanwhile.
const cores = Math.max(2, Math.min(availableParallelism(), 8));
await runAll(flags.includes('fault') ? cores : cores + 1, ({ isAlone }) => !isAlone);
await runAll(1, () => true);
await stores.close();
process.exitCode = conclude();

/** @returns {{ path: string, suite: string, isAlone: boolean, isForReleases: boolean }} path: of the source */
function described(path) {
  const [, first = ''] = /^\/\/ (.*)\n/.exec(readFileSync(join(root, path), 'utf8')) ?? [];
  const marks = first.split(', ');
  const named = marks.map((mark) => /^suite: (\w+)$/.exec(mark)?.[1]).find(Boolean);
  const isBelow = (folder) => path.startsWith(`${normalize(join('test', folder))}/`);
  const suite = named ?? Object.keys(FOLDERS).find((name) => FOLDERS[name].some(isBelow)) ?? 'core';
  const isAlone = suite === 'container' || marks.includes('alone');
  return { path, suite, isAlone, isForReleases: marks.includes('release') };
}

function isChosen({ path, suite, isForReleases }) {
  if (names.length > 0 && !names.some((name) => path.includes(name))) return false;
  if (flags.includes('quick')) return suite === 'core' && QUICK.test(path) && !opensDatabase(path);
  if (isForReleases && names.length === 0 && !flags.includes('release')) return false;
  const suites = flags.filter((flag) => flag in FOLDERS);
  if (suites.length > 0) return suites.includes(suite);
  return flags.includes('all') || names.length > 0 ? !APART.includes(suite) : suite === 'core';
}

function order({ suite }) {
  return Object.keys(FOLDERS).indexOf(suite);
}

/** Whether a file, or test support that it imports, opens a PostgreSQL. */
function opensDatabase(path, seen = new Set()) {
  if (path === 'test/support/postgres.ts') return true;
  if (seen.has(path) || !/^(test|packages\/\w+\/test)\//.test(path)) return false;
  seen.add(path);
  const imports = readFileSync(join(root, path), 'utf8').matchAll(
    /^(?!import type)(?:.* from|import) '(\..+\.ts)';$/gm,
  );
  return [...imports].some(([, name]) => opensDatabase(join(dirname(path), name), seen));
}

/** Runs the chosen files that are not run yet, so many at a time. */
async function runAll(jobs, isReady) {
  const work = async () => {
    for (let file = takeNext(isReady); file; file = takeNext(isReady)) {
      const result = await runFile(file);
      results.push(result);
      process.stdout.write(`${briefly(result).join('\n')}\n`);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
}

function takeNext(isReady) {
  const next = files.findIndex(isReady);
  return next === -1 ? undefined : files.splice(next, 1)[0];
}

async function runFile({ path, suite }) {
  const since = performance.now();
  const timeout = suite === 'core' ? 300 : 900;
  const env = { ...process.env, ...stores.env, TAP_TIMEOUT: String(timeout) };
  const child = spawn(process.execPath, [join('dist', path.replace(/ts$/, 'js'))], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
    // It leads a process group, so that what it leaves behind can be ended. Windows has no groups.
    detached: process.platform !== 'win32',
  });
  running.add(child);
  // tap ends a file at its time limit and prints what it waits for. A file that hangs too hard for that is killed.
  const timer = setTimeout(() => child.kill('SIGKILL'), timeout * 1000 + GRACE);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  const closed = once(child, 'close');
  await once(child, 'exit');
  clearTimeout(timer);
  try {
    // Otherwise it would run on and keep the output open.
    process.kill(-child.pid, 'SIGKILL');
  } catch {
    // Nothing is left.
  }
  const [code, signal] = await closed;
  running.delete(child);
  return { path, output, seconds: (performance.now() - since) / 1000, ...judge(output, code, signal) };
}

/** A file passed if it exited with 0, printed a summary, and ran or skipped at least one test. */
function judge(output, code, signal) {
  const counts = { total: 0, pass: 0, fail: 0, skip: 0 };
  const summary = /^# \{ (.+) \}$/m.exec(output);
  for (const [, name, value] of summary?.[1].matchAll(/(\w+): (\d+)/g) ?? []) counts[name] = Number(value);
  let problem = null;
  if (signal) problem = `ended by ${signal}`;
  else if (!summary) problem = `exit code ${code}, and no summary`;
  else if (counts.fail > 0) problem = `${counts.fail} failed`;
  else if (code !== 0) problem = `exit code ${code}`;
  else if (counts.total === 0) problem = 'it ran no test';
  // Otherwise the sum of failures would hide it.
  if (problem !== null && counts.fail === 0) counts.fail = 1;
  return { counts, problem };
}

/** A file's own line, every failure with its diagnostics, and what a run needs to be understood or repeated. */
function briefly({ path, output, seconds, problem }) {
  const outcome = problem === null ? '' : `: ${problem}`;
  let [indent, afterFailure] = [null, false];
  const isWorthShowing = (line) => {
    if (indent !== null) {
      if (line === `${indent}...`) indent = null;
      return true;
    }
    if (afterFailure && /^ *---$/.test(line)) {
      indent = line.slice(0, -3);
      return true;
    }
    afterFailure = /^ *not ok (?!.*# (TODO|SKIP))/i.test(line);
    return afterFailure || /^ *# (fault: |FUZZ_SEED=)/.test(line);
  };
  return [
    `${problem === null ? 'ok' : 'not ok'} - ${path} # ${seconds.toFixed(1)} s${outcome}`,
    ...output.split('\n').filter(isWorthShowing),
  ];
}

/** Prints what was skipped and the counts. @returns the exit code */
function conclude() {
  const byReason = new Map();
  for (const { path, output } of results)
    for (const [, name, reason] of output.matchAll(/^ *ok \d+(?: - (.*?))? # SKIP ?(.*)$/gim)) {
      const key = reason || 'no reason given';
      byReason.set(key, [...(byReason.get(key) ?? []), `${path}: ${name ?? ''}`]);
    }
  for (const [reason, skipped] of byReason)
    process.stdout.write(`left out, ${reason}:\n${skipped.map((line) => `  - ${line}\n`).join('')}`);
  const sum = (name) => results.reduce((total, { counts }) => total + counts[name], 0);
  process.stdout.write(`\n${sum('pass')} passed, ${sum('fail')} failed, ${sum('skip')} skipped\n`);
  const wrong = results.filter(({ problem }) => problem !== null).map(({ path }) => path);
  if (wrong.length > 0) process.stderr.write(`failed: ${wrong.join(' ')}\n`);
  const isRefused = process.env.CI === 'true' && byReason.size > 0;
  if (isRefused) process.stderr.write('CI=true does not allow skipped tests\n');
  return wrong.length === 0 && sum('pass') > 0 && !isRefused ? 0 : 1;
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
