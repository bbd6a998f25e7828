import { join } from 'node:path';
import { test } from 'tap';

interface Result {
  counts: Record<string, number> | null;
  leftOut: { file: string; name: string; reason: string }[];
}

interface TapSummary {
  readTap: (text: string) => Result;
  closingLines: (result: Result) => string[];
  makeBriefly: () => (line: string) => boolean;
}

const path = join(new URL('../../../', import.meta.url).pathname, 'scripts/tap-summary.mjs');
const { readTap, closingLines, makeBriefly } = (await import(path)) as TapSummary;

const OUTPUT = `TAP version 14
# Subtest: dist/test/http/smoke.test.js
    # fault: store away: 12 requests
    # nothing to see
    ok 1 - works on memory # time=1ms
    ok 2 - works on redis # SKIP no Redis \\#1
    1..2
ok 1 - dist/test/http/smoke.test.js # time=2ms

# Subtest: dist/test/http/broken.test.js
    not ok 1 - is right
      ---
      source: |
        ok 9 - quoted # SKIP no test at all
        # { total: 999, pass: 999 }
      ...
    ok 2 - is pending # TODO later
    1..2
not ok 2 - dist/test/http/broken.test.js # time=2ms
  ---
  exitCode: 1
  ...

1..2
# { total: 5, pass: 2, fail: 1, todo: 1, skip: 1 }
# time=10ms
`;

test('counts are those of tap, and what was left out is told by reason', (t) => {
  const result = readTap(OUTPUT);
  t.strictSame(result.counts, { total: 5, pass: 2, fail: 1, skip: 1, todo: 1 });
  t.strictSame(closingLines(result), [
    'left out, no Redis #1:',
    '  - http/smoke: works on redis',
    '2 passed, 1 failed, 1 skipped',
  ]);
  t.end();
});

test('a run that did not finish has failed', (t) => {
  const result = readTap(OUTPUT.slice(0, OUTPUT.indexOf('# { total: 5')));
  t.equal(closingLines(result).at(-1), '0 passed, 1 failed');
  t.end();
});

test('shows a line a file, a line a fault, and failures with their diagnostics', (t) => {
  t.strictSame(OUTPUT.split('\n').filter(makeBriefly()), [
    '    # fault: store away: 12 requests',
    'ok 1 - dist/test/http/smoke.test.js # time=2ms',
    '    not ok 1 - is right',
    '      ---',
    '      source: |',
    '        ok 9 - quoted # SKIP no test at all',
    '        # { total: 999, pass: 999 }',
    '      ...',
    'not ok 2 - dist/test/http/broken.test.js # time=2ms',
    '  ---',
    '  exitCode: 1',
    '  ...',
  ]);
  t.end();
});
