import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';

const SCRIPT = join(new URL('../../../', import.meta.url).pathname, 'scripts/ci-summary.mjs');

interface Step {
  kind: 'plain' | 'tests';
  code: number;
  log?: string;
}

test('adds up the tests, and counts each step as one', (t) => {
  const { status, last } = summary(t, {
    '01-check': { kind: 'plain', code: 0, log: '7 passed, 7 failed' },
    '02-tests': { kind: 'tests', code: 0, log: '1 passed, 1 failed\n\n40 passed, 0 failed, 2 skipped' },
    '03-more': { kind: 'tests', code: 0, log: '5 passed, 0 failed' },
  });
  t.equal(last, '48 passed, 0 failed, 2 skipped');
  t.equal(status, 0);
  t.end();
});

const good: Step = { kind: 'tests', code: 0, log: '40 passed, 0 failed, 0 skipped' };
const RED: [why: string, step: Step, last: string][] = [
  ['a step ended badly', { kind: 'plain', code: 2 }, '41 passed, 1 failed, 0 skipped'],
  ['a test failed', { kind: 'tests', code: 1, log: '3 passed, 2 failed' }, '44 passed, 2 failed, 0 skipped'],
  [
    'tests ended badly',
    { kind: 'tests', code: 1, log: '3 passed, 0 failed' },
    '44 passed, 1 failed, 0 skipped',
  ],
  [
    'tests failed with exit code 0',
    { kind: 'tests', code: 0, log: '3 passed, 1 failed' },
    '44 passed, 1 failed, 0 skipped',
  ],
  ['tests told no count', { kind: 'tests', code: 0, log: 'done' }, '41 passed, 1 failed, 0 skipped'],
  [
    'a step of tests ran none',
    { kind: 'tests', code: 0, log: '0 passed, 0 failed' },
    '41 passed, 1 failed, 0 skipped',
  ],
];
for (const [why, step, expected] of RED) {
  test(`is red when ${why}`, (t) => {
    const { status, last } = summary(t, { '01-good': good, '02-bad': step });
    t.equal(last, expected);
    t.equal(status, 1);
    t.end();
  });
}

test('is red when no tests ran', (t) => {
  const { status, last } = summary(t, { '01-check': { kind: 'plain', code: 0 } });
  t.equal(last, '1 passed, 1 failed, 0 skipped');
  t.equal(status, 1);
  t.end();
});

test('shows what failed in a failed step', (t) => {
  const log = 'refresh.ts: a: caught by b\nrefresh.ts: c: SURVIVED\n2 mutations, 1 survived';
  const { stdout } = summary(t, { '01-good': good, '02-mutations': { kind: 'plain', code: 1, log } });
  t.match(stdout, '\n02-mutations: refresh.ts: c: SURVIVED\n');
  t.notMatch(stdout, 'caught by');
  t.end();
});

test('shows the last lines of a failed step that names no failure', (t) => {
  const { stdout } = summary(t, {
    '01-good': good,
    '02-build': { kind: 'plain', code: 1, log: 'a\nstopped' },
  });
  t.match(stdout, '\n02-build: stopped\n');
  t.end();
});

function summary(t: Test, steps: Record<string, Step>) {
  const folder = t.testdir({});
  for (const [name, { kind, code, log = '' }] of Object.entries(steps)) {
    writeFileSync(join(folder, `${name}.json`), JSON.stringify({ kind, code, seconds: 1 }));
    writeFileSync(join(folder, `${name}.log`), `${log}\n`);
  }
  const { status, stdout } = spawnSync(process.execPath, [SCRIPT, folder], { encoding: 'utf8' });
  return { status, stdout, last: stdout.trimEnd().split('\n').at(-1) };
}
