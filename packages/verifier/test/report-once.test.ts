import { setImmediate as turn } from 'node:timers/promises';
import { test } from 'tap';
import { reportOnce } from '../src/report-once.ts';

test('reports a failure when it begins, changes, or returns', (t) => {
  const heard: string[] = [];
  const report = reportOnce(
    ({ message }) => heard.push(message),
    () => heard.push('back'),
  );
  for (const message of ['a', 'a', 'b', 'a', null, null, 'b', 'b'])
    report(message === null ? null : new Error(message));
  t.strictSame(heard, ['a', 'b', 'back', 'b'], 'replicas that fail in turns are one outage');
  t.end();
});

test('a report callback that throws or rejects does no harm', async (t) => {
  let tries = 0;
  const failed = () => {
    tries++;
    throw new Error('the log is full');
  };
  const rejecting = (): unknown => Promise.resolve().then(failed);
  for (const listener of [failed, rejecting]) {
    const report = reportOnce(listener, listener);
    for (const message of ['a', 'a', 'b', null]) report(message === null ? null : new Error(message));
    await turn();
  }
  t.equal(tries, 6);
});
