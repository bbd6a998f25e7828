// `node scripts/ci-summary.mjs FOLDER` adds up the results of .ci/run's steps in FOLDER: one NAME.json
// ({ kind, code, seconds }) and one NAME.log a step. Its last line is `N passed, N failed, N skipped`.
// Each step counts as one. A step of kind `tests` also adds the counts of its last closing line. Without that line it
// fails, because its tests did not run. A failed step also shows the lines of its log that name a failure.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const FAILURE = /SURVIVED|\bnot ok\b|\bFAIL|✗|\b[A-Za-z]*Error\b|without any mutation/;
const SHOWN_LINES = 8;
const SHOWN_WIDTH = 300;

const folder = process.argv[2] ?? '.';
const steps = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .sort()
  .map((name) => readStep(name.slice(0, -'.json'.length)));

for (const step of steps) process.stdout.write(`${describe(step)}\n`);
for (const step of steps.filter(({ failed }) => failed > 0)) {
  for (const line of failuresOf(step)) process.stdout.write(`${step.name}: ${line}\n`);
}
const total = { passed: sum('passed'), failed: sum('failed'), skipped: sum('skipped') };
const ranTests = steps.some(({ kind, passed }) => kind === 'tests' && passed > 1);
if (!ranTests) {
  process.stdout.write('no tests ran\n');
  total.failed += 1;
}
process.stdout.write(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped\n`);
process.exitCode = total.failed === 0 ? 0 : 1;

function readStep(name) {
  const { kind, code, seconds } = JSON.parse(readFileSync(join(folder, `${name}.json`), 'utf8'));
  const step = { name, kind, seconds, passed: 0, failed: 0, skipped: 0 };
  if (kind === 'tests') addCounts(step, readFileSync(join(folder, `${name}.log`), 'utf8'));
  if (code === 0 && step.failed === 0) step.passed += 1;
  else step.failed = Math.max(step.failed, 1);
  return step;
}

/** The last lines of a step's log that name a failure, or else its last lines. */
function failuresOf({ name }) {
  const lines = readFileSync(join(folder, `${name}.log`), 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean);
  const named = lines.filter((line) => FAILURE.test(line));
  return (named.length > 0 ? named : lines).slice(-SHOWN_LINES).map((line) => line.slice(0, SHOWN_WIDTH));
}

function addCounts(step, log) {
  const closing = [...log.matchAll(/^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/gm)].at(-1);
  if (closing === undefined || Number(closing[1]) === 0) step.failed = 1;
  if (closing === undefined) return;
  step.passed = Number(closing[1]);
  step.failed = Math.max(step.failed, Number(closing[2]));
  step.skipped = Number(closing[3] ?? 0);
}

function describe({ name, seconds, passed, failed, skipped }) {
  return `${failed === 0 ? 'passed' : 'FAILED'}  ${name} (${seconds} s: ${passed} passed, ${failed} failed, ${skipped} skipped)`;
}

function sum(field) {
  return steps.reduce((total, step) => total + step[field], 0);
}
