import { test } from 'tap';
import { SCENARIOS } from '../src/scenarios.ts';
import { makeSchedule, type Schedule } from '../src/schedule.ts';

/** Arrivals due before this second. */
function before(schedule: Schedule, second: number): number {
  let count = 0;
  while (count < schedule.total && schedule.dueOf(count) < second * 1000) count++;
  return count;
}

const STEADY = [
  { at: 0, level: 1 },
  { at: 1, level: 1 },
];

test('a steady rate is spaced evenly', (t) => {
  const schedule = makeSchedule(STEADY, { rate: 100, seconds: 5 });
  t.equal(schedule.total, 500);
  t.equal(schedule.dueOf(0), 5);
  t.equal(schedule.dueOf(1), 15);
  t.ok(Math.abs(schedule.dueOf(499) - 4995) < 1e-6);
  t.equal(schedule.rateAt(2.5), 100);
  t.end();
});

test('a ramp from nothing has half the arrivals, a quarter of them in its first half', (t) => {
  const shape = [
    { at: 0, level: 0 },
    { at: 1, level: 1 },
  ];
  const schedule = makeSchedule(shape, { rate: 100, seconds: 8 });
  t.equal(schedule.total, 400);
  t.equal(before(schedule, 4), 100);
  t.equal(schedule.rateAt(2), 25);
  t.end();
});

test('a ramp to nothing mirrors it', (t) => {
  const shape = [
    { at: 0, level: 1 },
    { at: 1, level: 0 },
  ];
  const schedule = makeSchedule(shape, { rate: 100, seconds: 8 });
  t.equal(schedule.total, 400);
  t.equal(before(schedule, 4), 300);
  t.end();
});

test('a pause sends nothing', (t) => {
  const shape = [
    { at: 0, level: 1 },
    { at: 0.25, level: 0 },
    { at: 0.75, level: 0 },
    { at: 1, level: 1 },
  ];
  const schedule = makeSchedule(shape, { rate: 100, seconds: 8 });
  t.equal(before(schedule, 2), before(schedule, 6));
  t.equal(schedule.total, 200);
  t.end();
});

test('the arrivals of every scenario are in order, within the run, and as many as its rate says', (t) => {
  for (const [name, { shape }] of Object.entries(SCENARIOS)) {
    const schedule = makeSchedule(shape, { rate: 50, seconds: 20 });
    const dues = Array.from({ length: schedule.total }, (_, i) => schedule.dueOf(i));
    t.strictSame(
      dues,
      [...dues].sort((a, b) => a - b),
      name,
    );
    t.ok((dues[0] ?? -1) >= 0 && (dues.at(-1) ?? Infinity) <= 20_000, name);
    const steps = Array.from({ length: 20_000 }, (_, ms) => schedule.rateAt((ms + 0.5) / 1000) / 1000);
    const area = steps.reduce((sum, each) => sum + each, 0);
    t.ok(Math.abs(area - schedule.total) < 1, `${name}: ${area} and ${schedule.total}`);
  }
  t.end();
});

test('a shape that does not run from 0 to 1 in order is refused', (t) => {
  const [first, last] = [
    { at: 0, level: 1 },
    { at: 1, level: 1 },
  ];
  for (const shape of [[], [first], [last, last], [first, { at: 0.5, level: 1 }], [first, first, last]])
    t.throws(() => makeSchedule(shape, { rate: 1, seconds: 1 }), RangeError);
  t.end();
});
