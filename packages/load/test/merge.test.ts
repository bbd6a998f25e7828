import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readArguments } from '../src/arguments.ts';
import { makeJudge } from '../src/judge.ts';
import { mergeReports, readReports } from '../src/merge.ts';
import { makeReport, type Report } from '../src/report.ts';
import { makeSamples, type Sample } from '../src/samples.ts';
import { LOST } from '../src/wire.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { listAccounts } from './listed-accounts.ts';

const NONE = { max_p99_ms: null, max_errors: null, max_late_ms: null };
const START = Date.parse('2026-11-26T12:00:00Z');

/** Requests whose latencies have a long tail, over ten seconds from `start`. */
function someSamples(count: number, seed: number): Sample[] {
  return Array.from({ length: count }, (_, i) => {
    const due = (i * 10_000) / count;
    const took = 1 + ((i * seed) % 97) + ((i * seed) % 101 === 0 ? 3000 : 0);
    const code = i % 53 === 0 ? '503 unavailable' : i % 71 === 0 ? LOST : 'ok';
    return { operation: i % 3 === 0 ? 'refresh' : 'verify', due, done: due + took, code };
  });
}

/** @param later seconds after the first generator */
function aReport(
  samples: readonly Sample[],
  { later = 0, words = ['mixed-day'] as string[], late = 1 } = {},
): Report {
  const recorded = makeSamples(0, 10);
  for (const sample of samples) recorded.record(sample);
  const judge = makeJudge(() => START + later * 1000);
  judge.signedOut(`load-device-${later}`, '401 token_reused');
  return makeReport({
    options: readArguments([...words, '--seconds', '10'], {}, listAccounts),
    url: 'https://auth.example.com',
    started: new Date(START + later * 1000),
    judge,
    samples: recorded,
    interrupted: false,
    seconds: 10,
    ok: recorded.all().ok,
    arrivals: samples.length,
    not_begun: 0,
    generator: { late_p99_ms: late, cpu: late / 10 },
  });
}

test('a merge has the figures of one process that had sent all requests', (t) => {
  const [a, b] = [
    someSamples(5000, 7),
    someSamples(300, 13).map((each) => ({ ...each, done: each.done + 500 })),
  ];
  const [whole, merged] = [aReport([...a, ...b]), mergeReports([aReport(b), aReport(a)], NONE)];
  t.ok((whole.totals.p95 ?? 0) > 1.2 * (aReport(a).totals.p95 ?? 0), 'the few slow ones count');
  t.strictSame(merged.totals, whole.totals);
  t.strictSame(merged.operations, whole.operations);
  t.strictSame(merged.errors, whole.errors);
  const counts = ({ over_time: intervals }: Report) =>
    intervals.map(({ second, offered, answered, histogram, errors }) => [
      second,
      offered,
      answered,
      histogram,
      errors,
    ]);
  t.strictSame(counts(merged), counts(whole));
  t.equal(merged.correctness.sign_outs, 2);
  t.end();
});

test('a generator that began later has its place in time, and the worst one speaks for all', (t) => {
  const samples = someSamples(100, 7);
  const [first, second] = [aReport(samples, { late: 2 }), aReport(samples, { later: 4, late: 9 })];
  const merged = mergeReports([second, first], NONE);
  t.equal(merged.totals.seconds, 14);
  t.equal(merged.started, first.started);
  t.strictSame(
    merged.over_time.slice(0, 14).map(({ offered }) => offered),
    [10, 10, 10, 10, 20, 20, 20, 20, 20, 20, 10, 10, 10, 10],
  );
  t.match(merged.generator, { late_p99_ms: 9, cpu: 0.9 });
  t.strictSame(
    merged.findings.map(({ at, text }) => [at.slice(17, 19), text.split(' ')[0]]),
    [
      ['00', 'load-device-0'],
      ['04', 'load-device-4'],
    ],
  );
  t.end();
});

test('the strictest threshold of the reports holds, unless the merge has one of its own', (t) => {
  const samples = someSamples(100, 7);
  const strict = aReport(samples, { words: ['mixed-day', '--max-p99', '50'] });
  const loose = aReport(samples, { words: ['mixed-day', '--max-p99', '90', '--max-errors', '0.5'] });
  t.strictSame(mergeReports([loose, strict], NONE).thresholds, { ...NONE, max_p99_ms: 50, max_errors: 0.5 });
  t.equal(mergeReports([loose, strict], { ...NONE, max_p99_ms: 80 }).thresholds.max_p99_ms, 80);
  t.end();
});

test('what is not of one load is refused by name', (t) => {
  const report = aReport(someSamples(10, 7));
  for (const other of [
    aReport([], { words: ['steady-refresh'] }),
    { ...report, settings: { ...report.settings, seconds: 20 } },
  ])
    t.throws(
      () => mergeReports([report, other], NONE),
      /^merge: the reports are of mixed-day of 10 s and of /,
    );
  t.throws(() => mergeReports([report, aReport([], { later: 11 })], NONE), /after the one of .* had ended/);

  const folder = testFolder(t);
  const file = (name: string, content: unknown) => {
    const path = join(folder, name);
    writeFileSync(path, JSON.stringify(content));
    return path;
  };
  const good = file('good.json', report);
  mkdirSync(join(folder, 'run'));
  file('run/report.json', aReport([]));
  t.equal(readReports([good, join(folder, 'run')]).length, 2);
  t.throws(() => readReports([join(folder, 'none')]), /none: cannot read it: ENOENT$/);
  t.throws(() => readReports([good, file('copy.json', report)]), /copy\.json: this report is given twice$/);
  const old = { ...report, totals: { ...report.totals, histogram: undefined } };
  for (const wrong of [old, {}, null, [], 'text'])
    t.throws(() => readReports([file('wrong.json', wrong)]), /wrong\.json: no report\.json of this version/);
  writeFileSync(join(folder, 'cut.json'), '{"scenario":');
  t.throws(() => readReports([join(folder, 'cut.json')]), /cut\.json: no report\.json/);
  t.throws(() => readReports([file('herd.json', { ...report, herd: {} })]), /herd runs alone/);
  t.end();
});
