import { test } from 'tap';
import { growsTooFast, GROWTH_LIMIT, growthOf, judgeGrowth } from '../src/growth.ts';

const round = (devices: number, all: number | null) => ({ devices, back: { p50: 0, p90: 0, p99: 0, all } });
/** Rounds of N, 2N and 4N devices that recover in these seconds. */
const rounds = (seconds: readonly (number | null)[], n = 2000) =>
  seconds.map((all, i) => round(n * 2 ** i, all));

test('growth is 1 if the time grows as the devices do, and below if it grows more slowly', (t) => {
  t.equal(growthOf(rounds([2, 4, 8])), 1);
  t.equal(growthOf(rounds([2, 2, 4])), 0.5);
  t.equal(growthOf(rounds([2, 2, 2])), 0);
  t.equal(growthOf(rounds([1, 4, 16])), 2);
  t.end();
});

test('one round, or one in which a device is missing, says nothing of growth', (t) => {
  for (const seconds of [[], [2], [2, null], [null, 4], [0, 4]]) t.equal(growthOf(rounds(seconds)), null);
  t.end();
});

test('a recovery that grows faster than the devices is refused', (t) => {
  for (const [seconds, isTooFast] of [
    [[6, 12, 24], false],
    [[6, 12.8, 19.2], false],
    // Linear, and noise of a fifth.
    [[6, 12, 24 * 1.2], false],
    [[6, 12, 24 * 1.3], true],
    // The devices to the power of 1.5, and of 2.
    [[6, 6 * 2 ** 1.5, 6 * 4 ** 1.5], true],
    [[6, 24, 96], true],
  ] as const) {
    const judged = judgeGrowth(rounds(seconds), 3);
    t.match(judged, { limit: GROWTH_LIMIT, not_judged: null });
    t.equal(growsTooFast(judged), isTooFast, `${seconds.join(', ')} s: growth ${judged.growth}`);
  }
  t.end();
});

test('what cannot be judged says why, and is no failure', (t) => {
  for (const [given, reason] of [
    [rounds([6, 24]), /ended early/],
    [[], /ended early/],
    [rounds([6, 24, null]), /did not recover/],
    [rounds([0, 1, 4]), /at once/],
    [rounds([0.1, 1, 4], 999), /fewer than 1000 devices/],
  ] as const) {
    const judged = judgeGrowth(given, 3);
    t.match(judged.not_judged, reason);
    t.notOk(growsTooFast(judged));
  }
  t.end();
});
