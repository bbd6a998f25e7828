import { test } from 'tap';
import { until } from '../../../test/support/until.ts';
import { makeLiveView } from '../src/live-view.ts';

function aScreen(isTTY: boolean) {
  const written: string[] = [];
  return { written, screen: { isTTY, columns: 60, write: (text: string) => written.push(text) } };
}

test('without a terminal, progress is a line for each quarter', (t) => {
  const { written, screen } = aScreen(false);
  const view = makeLiveView(screen);
  for (let done = 1; done <= 100; done++) view.progress('seeding', done, 100);
  t.strictSame(
    written.map((line) => line.trim()),
    [1, 25, 50, 75, 100].map((done) => `seeding: ${done} of 100`),
  );
  t.notMatch(written.join(''), '\u001b');
  t.end();
});

test('a terminal has one bar, which stays when it is full', (t) => {
  const { written, screen } = aScreen(true);
  const view = makeLiveView(screen);
  view.progress('seeding', 1, 2);
  view.progress('seeding', 2, 2);
  view.say('done');
  t.match(written[0], /^seeding █{15}░{15} 1 of 2\n/);
  t.equal(written[1], '\u001b[1A\u001b[J', 'the second picture replaces the first');
  t.match(written[2], /^seeding █{30} 2 of 2\n/);
  t.equal(written[3], 'done\n');
  t.end();
});

test('a run is one view: each picture replaces the one before, and the last one goes', async (t) => {
  const { written, screen } = aScreen(true);
  let looks = 0;
  const unfollow = makeLiveView(screen).follow(() => ({
    lines: [`look ${++looks}`, 'x'.repeat(100)],
    plain: 'not on a terminal',
  }));
  await until(() => looks === 2);
  unfollow();
  t.match(written[0], /^look 1\nx{59}\n$/, 'lines are cut to the width');
  t.equal(written[1], '\u001b[2A\u001b[J');
  t.match(written[2], /^look 2\n/);
  t.equal(written.at(-1), '\u001b[2A\u001b[J');
  t.notMatch(written.join(''), 'not on a terminal');
});
