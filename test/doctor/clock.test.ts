import { test } from 'tap';
import { compareClocks, judgeClock } from '../../src/doctor/clock.ts';

test('the quickest of several samples decides', async (t) => {
  let asked = 0;
  const difference = await compareClocks(async () => {
    // The first sample stalls: its time is then too old by the whole stall.
    const theirs = Date.now() + 10_000;
    if (asked++ === 0) await new Promise((resolve) => setTimeout(resolve, 200));
    return theirs;
  });
  t.equal(asked, 3);
  t.ok(Math.abs(difference.ahead - 10_000) <= difference.within, JSON.stringify(difference));
});

test('a difference counts only beyond its uncertainty', (t) => {
  const state = (ahead: number, within: number) => judgeClock('the database', { ahead, within }).state;
  t.equal(state(1000, 0), 'ok');
  t.equal(state(1500, 100), 'warn');
  t.equal(state(-1500, 600), 'ok');
  t.equal(state(-5100, 50), 'fail');
  t.equal(state(5100, 200), 'warn');
  t.end();
});
