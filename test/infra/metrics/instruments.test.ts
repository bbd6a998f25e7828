import { test } from 'tap';
import { makeCounter, makeHistogram } from '../../../src/infra/metrics/instruments.ts';

test('a counter counts', (t) => {
  const counter = makeCounter();
  t.equal(counter.value(), 0);
  for (let i = 0; i < 3; i++) counter.inc();
  t.equal(counter.value(), 3);
  t.end();
});

test('an observation counts in its bucket and all above, and a bound belongs to the bucket below', (t) => {
  const histogram = makeHistogram([1, 2]);
  const cumulative = () => histogram.value().buckets.map((bucket) => [bucket.le, bucket.cumulative]);
  t.strictSame(cumulative(), [
    ['1', 0],
    ['2', 0],
    ['+Inf', 0],
  ]);
  for (const value of [0, 1, 1.5, 2, 2.5]) histogram.observe(value);
  t.strictSame(cumulative(), [
    ['1', 2],
    ['2', 4],
    ['+Inf', 5],
  ]);
  t.match(histogram.value(), { sum: 7, count: 5 });
  t.end();
});
