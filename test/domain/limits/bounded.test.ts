import { test } from 'tap';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';

test('what has waited for too long is dropped, whatever comes and goes besides', (t) => {
  const clock = aClock();
  const { boundedQueue, dropped, goOff, waiting } = someQueues(clock);
  const told: string[] = [];
  const queue = boundedQueue<string, string>({
    queue: 'thefts',
    most: 3,
    patience: 100,
    onDrop: (item) => told.push(item),
  });
  for (const name of ['a', 'b', 'c']) {
    queue.set(name, name);
    clock.pass(30);
  }
  queue.set('b', 'b, renewed');
  queue.delete('a');
  queue.set('d', 'd', clock.monotonic() - 95);
  t.strictSame(waiting(), [100], 'one timer');
  clock.pass(10);
  goOff();
  t.strictSame([told, waiting()], [['d'], [30]], 'the next one is due then');
  clock.pass(30);
  goOff();
  clock.pass(30);
  goOff();
  t.strictSame([told, queue.size(), waiting()], [['d', 'b, renewed', 'c'], 0, []]);
  t.strictSame(dropped, { thefts: 3 });
  t.end();
});
