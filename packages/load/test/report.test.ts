import { test } from 'tap';
import { readArguments } from '../src/arguments.ts';
import type { HerdRound } from '../src/herd.ts';
import { makeJudge } from '../src/judge.ts';
import { pageOf } from '../src/page.ts';
import { failuresOf, makeReport } from '../src/report.ts';
import { makeSamples, type Samples } from '../src/samples.ts';
import { LOST } from '../src/wire.ts';
import { listAccounts } from './listed-accounts.ts';

/** The report of a herd whose rounds took these seconds. */
function aHerdReport(seconds: readonly number[], missing = 0) {
  const rounds: HerdRound[] = seconds.map((all, i) => ({
    devices: 1000 * 2 ** i,
    back: { p50: all / 2, p90: all, p99: all, all: missing > 0 ? null : all },
    missing,
    tries: 2,
    peak_per_second: 500,
    curve: [0, 1],
  }));
  const samples = makeSamples(0, 10);
  samples.record({ operation: 'refresh', due: 0, done: 20, code: 'ok' });
  return aReport(samples, rounds);
}

function aReport(samples: Samples, rounds?: HerdRound[], words: string[] = []) {
  return makeReport({
    options: readArguments([rounds ? 'herd' : 'mixed-day', ...words], {}, listAccounts),
    url: 'http://127.0.0.1:3000',
    started: new Date(0),
    judge: makeJudge(),
    samples,
    ...(rounds && { rounds }),
    interrupted: false,
    seconds: 10,
    ok: 1,
    arrivals: 7000,
    not_begun: 0,
    generator: { late_p99_ms: rounds ? null : 4, cpu: 0.5 },
  });
}

test('a herd that recovers linearly passes', (t) => {
  const report = aHerdReport([5, 10, 20]);
  t.match(report.herd, { growth: 1, limit: 1.15, not_judged: null });
  t.strictSame(failuresOf(report), []);
  t.match(pageOf(report), /class="verdict good".*Growth: 1, no worse than linear/s);
  t.end();
});

test('a recovery that grows faster than the devices fails the run, and the page says so', (t) => {
  const report = aHerdReport([5, 20, 80]);
  t.strictSame(failuresOf(report), ['recovery grows faster than the devices: growth 2, at most 1.15']);
  t.match(pageOf(report), /class="verdict bad".*Growth: 2, worse than linear/s);
  t.end();
});

test('an operation without any success fails the run, unless its limit or a retry explains that', (t) => {
  const failures = (codes: string[]) => {
    const samples = makeSamples(0, 10);
    samples.record({ operation: 'verify', due: 0, done: 1, code: 'ok' });
    for (const code of codes) samples.record({ operation: 'signup', due: 0, done: 1, code });
    return failuresOf(aReport(samples));
  };
  t.strictSame(failures(['500', '500', 'timeout']), ['signup never succeeded: 2 × 500, 1 × timeout']);
  for (const codes of [['500', 'ok'], ['429 rate_limited'], [LOST], [LOST, '400 username_taken'], []])
    t.strictSame(failures(codes), [], codes.join());
  t.end();
});

test('a run beyond a threshold fails, and the page says which', (t) => {
  const samples = makeSamples(0, 10);
  for (let i = 0; i < 97; i++) samples.record({ operation: 'verify', due: 0, done: 5, code: 'ok' });
  samples.record({ operation: 'verify', due: 0, done: 3300, code: '503 unavailable' });
  for (let i = 0; i < 2; i++) samples.record({ operation: 'verify', due: 0, done: 3300, code: 'ok' });
  const failures = (...words: string[]) => failuresOf(aReport(samples, undefined, words));
  t.strictSame(failures(), []);
  t.strictSame(failures('--max-p99', '3300', '--max-errors', '0.01', '--max-late', '4'), []);
  const p99 = ['the p99 is 3300 ms, above --max-p99 3299'];
  t.strictSame(failures('--max-p99', '3299'), p99);
  t.strictSame(failures('--max-errors', '0.009'), ['1% of the requests failed, above --max-errors 0.009']);
  t.strictSame(failures('--max-late', '3.9'), [
    'a generator sent 1% of its requests 4 ms late, above --max-late 3.9',
  ]);
  const page = pageOf(aReport(samples, undefined, ['--max-p99', '3299']));
  t.match(page, /class="verdict bad"[^]*<li>the p99 is 3300 ms/);
  t.end();
});

test('a device that never comes back fails the run', (t) => {
  const report = aHerdReport([5, 10, 20], 1);
  t.strictSame(failuresOf(report), ['3 devices did not come back after the outage']);
  t.match(pageOf(report), 'Growth: unknown, because a round did not recover');
  t.end();
});
