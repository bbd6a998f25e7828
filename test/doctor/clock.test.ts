import { test } from 'tap';
import { compareClocks, judgeClock } from '../../src/doctor/clock.ts';

test('an answer that took long says little, and the quickest says most', async (t) => {
  let asked = 0;
  const difference = await compareClocks(async () => {
    // A stall in the first: their time is then old by all of it.
    const theirs = Date.now() + 10_000;
    if (asked++ === 0) await new Promise((resolve) => setTimeout(resolve, 200));
    return theirs;
  });
  t.equal(asked, 3);
  t.ok(Math.abs(difference.ahead - 10_000) <= difference.within, JSON.stringify(difference));
});

test('a difference counts only as far as it is sure', (t) => {
  const state = (ahead: number, within: number) => judgeClock('somebody', { ahead, within }).state;
  t.equal(state(1000, 0), 'ok');
  t.equal(state(1500, 100), 'warn');
  t.equal(state(-1500, 600), 'ok');
  t.equal(state(-5100, 50), 'fail');
  t.equal(state(5100, 200), 'warn');
  t.end();
});
