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

test('a report callback that throws does no harm', (t) => {
  let tries = 0;
  const report = reportOnce(() => {
    tries++;
    throw new Error('the log is full');
  });
  for (const message of ['a', 'a', 'b']) report(new Error(message));
  t.equal(tries, 2);
  t.end();
});
