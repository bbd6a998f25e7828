// Runs compiled test files in parallel, each in a Node process of its own. They print TAP without a runner. tap's own
// runner costs half a second more for each file, because it loads coverage tools into each process.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { performance } from 'node:perf_hooks';
import { clearTimeout } from 'node:timers';
import { readTap } from './tap-summary.mjs';

/** Milliseconds for a file that ran out of time to print what it waits for. */
const GRACE = 10_000;

/** With TEST_COVERAGE=FOLDER each file records which functions it called. */
const RECORDER = new URL('calls/record.mjs', import.meta.url).pathname;

/** Each file leads its own process group, except on Windows, which has none. */
const hasGroups = process.platform !== 'win32';

/**
 * @typedef {{ file: string, output: string, seconds: number, problem: string | null,
 *   counts: Record<string, number>, passed: string[],
 *   leftOut: { file: string, name: string, reason: string }[] }} FileResult
 * @param {string[]} files in the order in which they begin
 * @param {{ jobs: number, timeoutOf: (file: string) => number, env: NodeJS.ProcessEnv, cwd: string,
 *   onStart?: (file: string) => void, onEnd?: (result: FileResult) => void }} options timeoutOf: in seconds
 * @returns {Promise<FileResult[]>} in the order in which they ended
 */
export async function runFiles(files, { jobs, onStart = () => {}, onEnd = () => {}, ...options }) {
  const left = [...files];
  const running = new Set();
  const results = [];
  // Ends the running files, which count as failed, and starts no other.
  const stop = () => {
    left.length = 0;
    for (const child of running) child.kill('SIGTERM');
  };
  for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, stop);
  const work = async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) {
      onStart(file);
      const result = await runFile(file, running, options);
      results.push(result);
      onEnd(result);
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  for (const signal of ['SIGTERM', 'SIGINT']) process.off(signal, stop);
  return results;
}

async function runFile(file, running, { timeoutOf, env, cwd }) {
  const timeout = timeoutOf(file);
  const since = performance.now();
  const recording = env.TEST_COVERAGE ? [`--import=${RECORDER}`] : [];
  const child = spawn(process.execPath, [...recording, file], {
    ...{ cwd, env: { ...env, TAP_TIMEOUT: String(timeout) }, stdio: ['ignore', 'pipe', 'inherit'] },
    detached: hasGroups,
  });
  running.add(child);
  // tap ends a file at its time limit and prints what it waits for. A file that hangs too hard for that is killed.
  const timer = setTimeout(() => child.kill('SIGKILL'), timeout * 1000 + GRACE);
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk));
  const closed = once(child, 'close');
  await once(child, 'exit');
  clearTimeout(timer);
  endGroup(child.pid);
  const [code, signal] = await closed;
  running.delete(child);
  return judge({ file, output, seconds: (performance.now() - since) / 1000 }, code, signal);
}

/** Kills children that a file left behind: they would run on and keep its output open. */
function endGroup(pid) {
  if (!hasGroups) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // No process is left.
  }
}

/** A file passed if it exited with 0, printed a summary, and ran or skipped at least one test. */
function judge(ran, code, signal) {
  const { counts: read, passed, leftOut } = readTap(ran.output, ran.file);
  const counts = { total: 0, pass: 0, fail: 0, skip: 0, todo: 0, ...read };
  let problem = null;
  if (signal) problem = `ended by ${signal}`;
  else if (read === null) problem = `exit code ${code}, and no summary`;
  else if (counts.fail > 0) problem = `${counts.fail} failed`;
  else if (code !== 0) problem = `exit code ${code}`;
  else if (counts.total === 0) problem = 'it ran no test';
  // Otherwise the sum of failures would hide it.
  if (problem !== null && counts.fail === 0) counts.fail = 1;
  return { ...ran, problem, counts, passed, leftOut };
}
