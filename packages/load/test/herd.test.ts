import { test } from 'tap';
import { summary } from '../src/herd.ts';

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
