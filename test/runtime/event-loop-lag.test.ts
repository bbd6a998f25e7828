import { test } from 'tap';
import { makeLagGauge } from '../../src/runtime/event-loop-lag.ts';
import { aClock } from '../support/clock.ts';

/** A gauge that is sampled after these intervals in milliseconds, instead of after 100. */
function lagAfter(...waits: number[]): number {
  const clock = aClock();
  const gauge = makeLagGauge(100, clock);
  for (const ms of waits) {
    clock.pass(ms);
    gauge.sample();
  }
  return gauge.lag();
}

test('a loop on time has no lag', (t) => {
  t.equal(lagAfter(), 0);
  t.equal(lagAfter(100, 100, 100, 100, 100), 0);
  t.equal(lagAfter(99, 99, 99, 99, 99), 0, 'and no negative lag');
  t.end();
});

test('a single pause of any length is no load', (t) => {
  t.equal(lagAfter(5000), 0);
  t.equal(lagAfter(100, 100, 5000, 5000, 100), 0);
  t.end();
});

test('a loop that is late most of the time lags', (t) => {
  t.equal(lagAfter(150, 400, 150), 50);
  t.equal(lagAfter(300, 100, 280, 100, 260), 160);
  t.equal(lagAfter(900, 900, 900, 900, 900), 800);
  t.equal(lagAfter(900, 900, 900, 900, 900, 100, 100, 100), 0, 'and no longer after it has caught up');
  t.end();
});
