import { test } from 'tap';
import { makeHistogram } from '../src/histogram.ts';

test('percentiles are within 5% of the exact ones, and never below', (t) => {
  const histogram = makeHistogram();
  const values = Array.from({ length: 10_000 }, (_, i) => 0.05 * 1.001 ** i);
  for (const value of values.toReversed()) histogram.add(value);
  for (const share of [0.001, 0.5, 0.9, 0.99, 0.999, 1]) {
    const exact = values[Math.ceil(values.length * share) - 1] ?? NaN;
    const found = histogram.percentile(share) ?? NaN;
    t.ok(found >= exact * (1 - 1e-9) && found <= exact * 1.05, `${share}: ${found}, exactly ${exact}`);
  }
  t.end();
});

test('the last percentile is the longest duration', (t) => {
  const histogram = makeHistogram();
  for (const ms of [1, 2, 777.7]) histogram.add(ms);
  t.equal(histogram.percentile(1), 777.7);
  t.equal(histogram.max(), 777.7);
  t.equal(histogram.count(), 3);
  t.end();
});

test('two histograms add up', (t) => {
  const [sum, other] = [makeHistogram(), makeHistogram()];
  sum.add(1);
  for (let i = 0; i < 9; i++) other.add(100);
  sum.addAll(other);
  t.equal(sum.count(), 10);
  t.ok((sum.percentile(0.1) ?? 0) < 1.05);
  t.equal(sum.percentile(0.11), 100);
  t.end();
});

test('the counts of a report are the same histogram, in order', (t) => {
  const [original, copy] = [makeHistogram(), makeHistogram()];
  for (let i = 0; i < 900; i++) original.add(0.005 * 1.02 ** i);
  const counts = original.toCounts();
  const ends = Object.keys(counts).map(Number);
  t.strictSame(
    ends,
    [...ends].sort((a, b) => a - b),
  );
  copy.addCounts(JSON.parse(JSON.stringify(counts)) as typeof counts, original.max() ?? 0);
  t.strictSame(copy.buckets, original.buckets);
  for (const share of [0.1, 0.5, 0.99, 1]) t.equal(copy.percentile(share), original.percentile(share));
  t.end();
});

test('durations beyond both ends count in the last buckets', (t) => {
  const histogram = makeHistogram();
  histogram.add(0);
  histogram.add(1e9);
  t.equal(histogram.count(), 2);
  t.ok((histogram.percentile(0.5) ?? NaN) <= 0.01);
  t.end();
});

test('an empty histogram has no figures', (t) => {
  t.strictSame([makeHistogram().percentile(0.5), makeHistogram().max()], [null, null]);
  t.end();
});
