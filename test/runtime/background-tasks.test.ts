import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { makeBackgroundTasks } from '../../src/runtime/background-tasks.ts';
import type { Objection } from '../../src/domain/standing.ts';
import { deferred } from '../support/deferred.ts';
import { until } from '../support/until.ts';

function open() {
  const lines: string[] = [];
  const ended: [task: string, succeeded: boolean][] = [];
  const note = (_fields: object, text: string) => lines.push(text);
  const logger = { warn: note as never, info: note as never };
  let objection: Objection | null = null;
  const standing = { objection: () => objection };
  const tasks = makeBackgroundTasks(logger, { taskEnded: (...end) => ended.push(end) }, standing);
  const object = (found: Objection | null) => (objection = found);
  return { tasks, lines, ended, object };
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

test('a replica that may not serve runs no task but what the task names for that time', async (t) => {
  const { tasks, ended, object } = open();
  const counts = { change: 0, read: 0, instead: 0 };
  const count = (name: keyof typeof counts) => () => void counts[name]++;
  tasks.every(1, 'write-behind', count('change'));
  tasks.every(1, null, count('read'), count('read'));
  tasks.every(1, 'revocation feed', count('change'), count('instead'));
  object({ about: 'ISSUER', problem: 'it differs', action: 'mend it' });
  tasks.start();
  await until(() => counts.read > 2 && counts.instead > 2);
  t.equal(counts.change, 0);
  t.notOk(ended.some(([task]) => task === 'write-behind'));
  object(null);
  await until(() => counts.change > 2);
  const { instead } = counts;
  await until(() => counts.read > 10);
  t.equal(counts.instead, instead);
  await tasks.stop();
});
