import { test } from 'tap';
import { makeLagGauge } from '../src/event-loop-lag.ts';
import { aClock } from './support/clock.ts';

/** A gauge that is looked at after these many milliseconds each, instead of after 100. */
function lagAfter(...waits: number[]): number {
  const clock = aClock();
  const gauge = makeLagGauge(100, clock);
  for (const ms of waits) {
    clock.pass(ms);
    gauge.look();
  }
  return gauge.lag();
}

test('a loop that keeps its times is not late', (t) => {
  t.equal(lagAfter(), 0);
  t.equal(lagAfter(100, 100, 100, 100, 100), 0);
  t.equal(lagAfter(99, 99, 99, 99, 99), 0, 'nor early');
  t.end();
});

test('a single pause is no load, however long', (t) => {
  t.equal(lagAfter(5000), 0);
  t.equal(lagAfter(100, 100, 5000, 5000, 100), 0);
  t.end();
});

test('a loop that is late most of the time is', (t) => {
  t.equal(lagAfter(150, 400, 150), 50);
  t.equal(lagAfter(300, 100, 280, 100, 260), 160);
  t.equal(lagAfter(900, 900, 900, 900, 900), 800);
  t.equal(lagAfter(900, 900, 900, 900, 900, 100, 100, 100), 0, 'and no longer when it has caught up');
  t.end();
});
