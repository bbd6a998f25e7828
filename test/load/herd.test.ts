import { test } from 'tap';
import { growthOf, summary } from './herd.ts';

const round = (devices: number, all: number | null) => ({ devices, back: { p50: 0, p90: 0, p99: 0, all } });

test('growth is 1 if the time grows as the devices do, and below if it grows more slowly', (t) => {
  t.equal(growthOf([round(100, 2), round(200, 4), round(400, 8)]), 1);
  t.equal(growthOf([round(100, 2), round(200, 2), round(400, 4)]), 0.5);
  t.equal(growthOf([round(100, 2), round(400, 2)]), 0);
  t.equal(growthOf([round(100, 1), round(400, 16)]), 2);
  t.end();
});

test('one round, or one in which a device is missing, says nothing of growth', (t) => {
  t.equal(growthOf([round(100, 2)]), null);
  t.equal(growthOf([]), null);
  t.equal(growthOf([round(100, 2), round(200, null)]), null);
  t.end();
});

test('a round says when which share was back, and who is missing', (t) => {
  const times = Array.from({ length: 90 }, (_, i) => (i + 1) * 10);
  const { devices, missing, back, curve } = summary(times, 100);
  t.equal(devices, 100);
  t.equal(missing, 10);
  t.strictSame(back, { p50: 0.5, p90: 0.9, p99: null, all: null });
  t.equal(curve[0], 0);
  t.equal(curve[5], 0.5);
  t.equal(curve.at(-1), 0.9);
  t.end();
});

test('a device that refreshed during the outage was back at its end', (t) => {
  t.match(summary([-500, -1], 2), { missing: 0, curve: [1] });
  t.end();
});
