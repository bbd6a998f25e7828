// `node scripts/ci-summary.mjs FOLDER`: adds up what .ci/run's steps left in FOLDER, one NAME.json
// ({ kind, code, seconds }) and one NAME.log a step, and ends with the line `N passed, N failed, N skipped`.
// A step counts as one; a step of kind `tests` counts with the numbers of its last closing line as well, and is red
// without one: tests that did not run have not passed.
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const folder = process.argv[2] ?? '.';
const steps = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .sort()
  .map((name) => readStep(name.slice(0, -'.json'.length)));

for (const step of steps) process.stdout.write(`${describe(step)}\n`);
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
