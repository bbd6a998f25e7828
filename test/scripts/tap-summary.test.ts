import { join } from 'node:path';
import { test } from 'tap';

interface LeftOut {
  file: string;
  name: string;
  reason: string;
}

type Counts = Record<'total' | 'pass' | 'fail' | 'skip' | 'todo', number>;

interface TapSummary {
  readTap: (text: string, file: string) => { counts: Counts | null; passed: string[]; leftOut: LeftOut[] };
  closingLines: (results: { counts: Counts; leftOut: LeftOut[] }[]) => string[];
  briefly: (result: { file: string; output: string; seconds: number; problem: string | null }) => string[];
}

const path = join(new URL('../../../', import.meta.url).pathname, 'scripts/tap-summary.mjs');
const { readTap, closingLines, briefly } = (await import(path)) as TapSummary;

const FILE = 'dist/test/http/smoke.test.js';

const OUTPUT = `TAP version 14
# Subtest: works
    # fault: store away: 12 requests
    # nothing to see
    ok 1 - works on memory # time=1ms
    ok 2 - works on redis # SKIP no Redis \\#1
    1..2
ok 1 - works # time=2ms

# Subtest: is broken
    not ok 1 - is right
      ---
      source: |
        ok 9 - quoted # SKIP no test at all
        # { total: 999, pass: 999 }
      ...
    ok 2 - is pending # TODO later
    1..2
not ok 2 - is broken # time=2ms
  ---
  stack: here
  ...

1..2
# { total: 5, pass: 2, fail: 1, todo: 1, skip: 1 }
# time=10ms
`;

test('reports tap’s counts, and skipped tests by reason over all files', (t) => {
  const { counts, leftOut } = readTap(OUTPUT, FILE);
  t.strictSame(counts, { total: 5, pass: 2, fail: 1, skip: 1, todo: 1 });
  if (!counts) return;
  t.strictSame(
    closingLines([
      { counts, leftOut },
      { counts, leftOut: [] },
    ]),
    ['left out, no Redis #1:', '  - http/smoke: works on redis', '4 passed, 2 failed, 2 skipped'],
  );
  t.end();
});

test('names the tests that passed, and no assertion, failure or skipped test', (t) => {
  const nested = `# Subtest: outer
    # Subtest: inner \\#1
        ok 1 - inner \\#1
        ok 2 - outer
        1..2
    ok 1 - inner \\#1 # time=1ms

    # Subtest: pending
    ok 2 - pending # TODO later
    # Subtest: left out
    ok 3 - left out # SKIP no Redis
    # Subtest: broken
        not ok 1 - is right
        1..1
    not ok 4 - broken # time=1ms
    1..4
not ok 1 - outer # time=2ms
`;
  t.strictSame(readTap(OUTPUT, FILE).passed, ['works']);
  t.strictSame(readTap(nested, FILE).passed, ['inner #1']);
  t.end();
});

test('a file that did not finish has no counts', (t) => {
  t.equal(readTap(OUTPUT.slice(0, OUTPUT.indexOf('# { total: 5')), FILE).counts, null);
  t.end();
});

test('shows a line per file, a line per fault, and failures with their diagnostics', (t) => {
  t.strictSame(briefly({ file: FILE, output: OUTPUT, seconds: 2.04, problem: '1 failed' }), [
    'not ok - dist/test/http/smoke.test.js # 2.0 s: 1 failed',
    '    # fault: store away: 12 requests',
    '    not ok 1 - is right',
    '      ---',
    '      source: |',
    '        ok 9 - quoted # SKIP no test at all',
    '        # { total: 999, pass: 999 }',
    '      ...',
    'not ok 2 - is broken # time=2ms',
    '  ---',
    '  stack: here',
    '  ...',
  ]);
  const good = { file: FILE, output: 'ok 1 - works\n1..1\n', seconds: 1, problem: null };
  t.strictSame(briefly(good), ['ok - dist/test/http/smoke.test.js # 1.0 s']);
  t.end();
});
