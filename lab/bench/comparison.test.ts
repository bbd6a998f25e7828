import { test } from 'tap';
import { makeRandom } from '../../test/support/random.ts';
import { compare, sharesOf, type Verdict } from './comparison.ts';
import { median, rankSum, sampleOf } from './statistics.ts';

/** Rounds of a share with normal noise of this relative size. */
function makeRounds(seed: number) {
  const { between } = makeRandom(seed);
  const uniform = () => between(0, 1);
  // The sum of twelve uniform figures, less 6, has deviation 1.
  const normal = () => Array.from({ length: 12 }, uniform).reduce((sum, each) => sum + each, -6);
  return (share: number, noise: number, count = 11) =>
    Array.from({ length: count }, () => share * (1 + noise * normal()));
}

/** How often 200 pairs of runs end with this verdict. */
function shareOf(verdict: Verdict, pair: () => [number[], number[]]): number {
  const runs = Array.from({ length: 200 }, pair);
  return runs.filter(([now, then]) => compare(now, then).verdict === verdict).length / runs.length;
}

test('the median and the quartiles', (t) => {
  t.strictSame(sampleOf([5, 1, 3, 2, 4]), { median: 3, low: 2, high: 4 });
  t.equal(median([4, 1, 3, 2]), 2.5);
  t.equal(median([7]), 7);
  t.ok(Number.isNaN(median([])));
  t.end();
});

test('p of the rank-sum test equals that of the published tables', (t) => {
  const low = [1, 2, 3, 4, 5];
  const high = [6, 7, 8, 9, 10];
  // U = 0 of 25 pairs, by the normal approximation z = 2.507.
  t.ok(Math.abs(rankSum(low, high) - 0.0122) < 0.0001, `${rankSum(low, high)}`);
  t.equal(rankSum(low, high), rankSum(high, low));
  t.ok(rankSum(low, low) > 0.999);
  t.equal(rankSum(low, []), 1);
  t.end();
});

test('a share is taken within a round, so what slows both servers cancels out', (t) => {
  const quiet = { service: 500, yardstick: 1000 };
  const busy = { service: 100, yardstick: 200 };
  t.strictSame(sharesOf([quiet, busy, quiet]), [0.5, 0.5, 0.5]);
  t.end();
});

test('a slow-down of 20% is reported as one', (t) => {
  const rounds = makeRounds(1);
  for (const noise of [0.01, 0.03, 0.05]) {
    const found = shareOf('slower', () => [rounds(0.4, noise), rounds(0.5, noise)]);
    t.ok(found > 0.98, `noise ${noise}: ${found}`);
  }
  const five = shareOf('slower', () => [rounds(0.4, 0.03, 5), rounds(0.5, 0.03, 5)]);
  t.ok(five > 0.98, `five rounds: ${five}`);
  const { change } = compare([0.4, 0.4, 0.4, 0.4, 0.4], [0.5, 0.5, 0.5, 0.5, 0.5]);
  t.ok(Math.abs(change + 0.2) < 1e-9);
  t.end();
});

test('a gain of 20% is reported as one', (t) => {
  const rounds = makeRounds(2);
  const found = shareOf('faster', () => [rounds(0.6, 0.03), rounds(0.5, 0.03)]);
  t.ok(found > 0.98, `${found}`);
  t.end();
});

test('noise is not reported, however large', (t) => {
  const rounds = makeRounds(3);
  for (const noise of [0.01, 0.05, 0.15, 0.3]) {
    const pair = (): [number[], number[]] => [rounds(0.5, noise), rounds(0.5, noise)];
    const reported = shareOf('slower', pair) + shareOf('faster', pair);
    t.ok(reported < 0.04, `noise ${noise}: ${reported}`);
  }
  t.end();
});

test('one delayed round changes nothing', (t) => {
  const rounds = makeRounds(4);
  const [first = 0, ...others] = rounds(0.5, 0.01);
  const delayed = [first / 10, ...others];
  t.equal(compare(delayed, rounds(0.5, 0.01)).verdict, 'same');
  t.end();
});

test('a difference that is certain but small is not reported', (t) => {
  const rounds = makeRounds(5);
  const now = rounds(0.47, 0.005);
  const then = rounds(0.5, 0.005);
  t.match(compare(now, then), { verdict: 'same' });
  t.ok(compare(now, then).p < 0.001);
  t.end();
});

test('rounds that could not show 20% say so', (t) => {
  const rounds = makeRounds(6);
  const noisy = shareOf('too noisy', () => [rounds(0.5, 0.4), rounds(0.5, 0.4)]);
  t.ok(noisy > 0.8, `${noisy}`);
  t.equal(compare([0.5], [0.5]).verdict, 'too noisy', 'one round');
  t.equal(compare([], [0.5]).verdict, 'too noisy', 'none');
  t.end();
});
