import { test } from 'tap';
import { makeConfirm } from '../../../src/domain/enforcement/confirm.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { Confirmation, ReaderKey } from '../../../src/domain/enforcement/ports.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { NO_FACTS } from '../../support/confirmation.ts';
import { deferred } from '../../support/deferred.ts';

const aConfirmation = (reader: string, seq: number, serviceId = 'shop'): Confirmation => ({
  serviceId,
  reader,
  position: { epoch: 'e', seq },
  ...NO_FACTS,
});

function aWorld({ readers = 0, perService = 2 } = {}) {
  const clock = aClock();
  const queues = someQueues(clock);
  const written: string[][] = [];
  const removed: ReaderKey[] = [];
  const paused: number[] = [];
  let writing: () => Promise<void> = () => Promise.resolve();
  const { confirm, sayGoodbye } = makeConfirm({
    store: {
      async confirm(batch) {
        written.push(batch.map(({ reader, position }) => `${reader} ${position.seq}`));
        await writing();
      },
      remove: (key) => {
        removed.push(key);
        return Promise.resolve(true);
      },
    },
    clock,
    pause: (ms) => {
      paused.push(ms);
      clock.pass(ms);
      return Promise.resolve();
    },
    boundedQueue: queues.boundedQueue,
    perService,
    patience: 1000,
    readers: () => readers,
  });
  return {
    confirm,
    sayGoodbye,
    written,
    removed,
    paused,
    queues,
    clock,
    hold: (work: Promise<void>) => (writing = () => work),
  };
}

const unavailable = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    (error: unknown) => error instanceof AuthError && error.code,
  );

test('a write takes the last confirmation of each reader, 250 ms after the one before', async (t) => {
  const { confirm, written, paused, hold } = aWorld();
  const first = deferred();
  hold(first.promise);
  const all = [confirm(aConfirmation('a', 1))];
  for (const [reader, seq] of [
    ['a', 2],
    ['b', 7],
    ['a', 3],
  ] as const)
    all.push(confirm(aConfirmation(reader, seq)));
  hold(Promise.resolve());
  first.resolve();
  t.strictSame(await Promise.all(all), [1, 1, 1, 1]);
  t.strictSame(written, [['a 1'], ['a 3', 'b 7']]);
  t.strictSame(paused, [250]);
});

test('a reader that goes back is believed, and a failed write is told to all who wait for it', async (t) => {
  const { confirm, written, hold } = aWorld();
  await confirm(aConfirmation('a', 9));
  await confirm(aConfirmation('a', 8));
  t.strictSame(written, [['a 9'], ['a 8']]);
  hold(Promise.reject(new AuthError('unavailable')));
  t.equal(await unavailable(confirm(aConfirmation('a', 10))), 'unavailable');
  hold(Promise.resolve());
  await confirm(aConfirmation('a', 10));
});

test('one service fills no more than its places, and leaves those of others', async (t) => {
  const { confirm, hold } = aWorld();
  const first = deferred();
  hold(first.promise);
  const under = [confirm(aConfirmation('z', 1))];
  for (const reader of ['a', 'b', 'a']) under.push(confirm(aConfirmation(reader, 1)));
  t.equal(await unavailable(confirm(aConfirmation('c', 1))), 'unavailable');
  under.push(confirm(aConfirmation('c', 1, 'desk')));
  first.resolve();
  await Promise.all(under);
});

test('a place is free again after a write, a goodbye and a wait that was too long', async (t) => {
  const { confirm, sayGoodbye, hold, queues, clock } = aWorld({ perService: 1 });
  const ends = ['written', 'gone', 'dropped'] as const;
  for (const end of ends) {
    const first = deferred();
    hold(first.promise);
    // Otherwise it waits too.
    clock.pass(1000);
    const writing = confirm(aConfirmation('a', 1));
    const waits = unavailable(confirm(aConfirmation('b', 1)));
    t.equal(await unavailable(confirm(aConfirmation('c', 1))), 'unavailable', `full before it is ${end}`);
    const gone = end === 'gone' ? sayGoodbye({ serviceId: 'shop', reader: 'b' }) : null;
    if (end === 'dropped') {
      clock.pass(1000);
      queues.goOff();
      t.equal(await waits, 'unavailable');
    }
    const next = end === 'written' ? 'done' : unavailable(confirm(aConfirmation('d', 1)));
    hold(Promise.resolve());
    first.resolve();
    await Promise.all([writing, gone]);
    t.equal(await waits, end === 'dropped' ? 'unavailable' : 'done');
    t.equal(await next, 'done', `one that is ${end} leaves its place`);
    t.equal(await unavailable(confirm(aConfirmation('e', 1))), 'done', end);
  }
});

test('a write that does not begin in time is refused', async (t) => {
  const { confirm, hold, queues, clock } = aWorld();
  hold(new Promise(() => undefined));
  void confirm(aConfirmation('a', 1));
  const waiting = unavailable(confirm(aConfirmation('b', 1)));
  clock.pass(1000);
  queues.goOff();
  t.equal(await waiting, 'unavailable');
});

test('what a process confirmed does not come back after its goodbye', async (t) => {
  const { confirm, sayGoodbye, written, removed, hold } = aWorld();
  const first = deferred();
  hold(first.promise);
  const confirmed = [confirm(aConfirmation('a', 1)), confirm(aConfirmation('a', 2))];
  const gone = sayGoodbye({ serviceId: 'shop', reader: 'a' });
  await new Promise(setImmediate);
  t.strictSame(removed, [], 'not before the write that is under way');
  first.resolve();
  await Promise.all([...confirmed, gone]);
  t.strictSame(written, [['a 1']]);
  t.strictSame(removed, [{ serviceId: 'shop', reader: 'a' }]);
});

test('all readers together confirm at most 500 times a second', async (t) => {
  for (const [readers, after] of [
    [0, 1],
    [500, 1],
    [501, 2],
    [5000, 10],
  ] as const)
    t.equal(await aWorld({ readers }).confirm(aConfirmation('a', 1)), after, `${readers}`);
});
