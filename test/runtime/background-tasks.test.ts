import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { makeBackgroundTasks } from '../../src/runtime/background-tasks.ts';
import { deferred } from '../support/deferred.ts';
import { until } from '../support/until.ts';

function open() {
  const lines: string[] = [];
  const ended: [task: string, succeeded: boolean][] = [];
  const note = (_fields: object, text: string) => lines.push(text);
  const logger = { warn: note as never, info: note as never };
  const tasks = makeBackgroundTasks(logger, { taskEnded: (...end) => ended.push(end) });
  return { tasks, lines, ended };
}

test('no task runs before the start, none twice at once, and the stop waits for it', async (t) => {
  const { tasks } = open();
  const work = deferred<undefined>();
  let runs = 0;
  let isDone = false;
  tasks.every(1, 'clock check', async () => {
    runs++;
    await work.promise;
    isDone = true;
  });
  await sleep(20);
  t.equal(runs, 0);
  tasks.start();
  await until(() => runs > 0);
  await sleep(20);
  t.equal(runs, 1);
  const stopped = tasks.stop();
  work.resolve(undefined);
  await stopped;
  t.ok(isDone);
  await sleep(20);
  t.equal(runs, 1);
});

test('a failure is tried again and logged once; only named tasks are counted', async (t) => {
  const { tasks, lines, ended } = open();
  let runs = 0;
  tasks.every(1, 'hash costs', () => {
    if (++runs < 4) throw new Error('away');
  });
  let samples = 0;
  tasks.every(1, null, () => {
    samples++;
  });
  tasks.start();
  await until(() => ended.length >= 5 && samples > 0);
  await tasks.stop();
  t.strictSame(lines, ['a background task failed', 'a background task works again']);
  t.strictSame(ended.slice(0, 4), [
    ...Array.from({ length: 3 }, () => ['hash costs', false]),
    ['hash costs', true],
  ]);
});
