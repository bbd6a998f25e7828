import fc from 'fast-check';
import { test } from 'tap';
import { makeFairQueue } from '../../../src/domain/passwords/fair-queue.ts';

interface Item {
  key: string;
  name: string;
}

/** A queue of named items; a name begins with its key. */
function aQueue(...names: string[]) {
  const queue = makeFairQueue<Item>();
  const add = (name: string) => {
    const key = name.slice(0, 1);
    queue.add(key, { key, name });
  };
  names.forEach(add);
  const rest = () => Array.from({ length: queue.size() }, () => queue.takeNext()?.name).join(' ');
  return { queue, add, rest };
}

test('keys take turns, and each key serves its oldest item', (t) => {
  t.equal(aQueue('a1', 'a2', 'a3', 'b1', 'c1', 'b2').rest(), 'a1 b1 c1 a2 b2 a3');
  const { queue, add, rest } = aQueue('a1', 'a2', 'b1');
  t.equal(queue.takeNext()?.name, 'a1');
  add('c1');
  add('a3');
  t.equal(rest(), 'b1 a2 c1 a3', 'a served key moves to the end');
  t.equal(queue.takeNext(), undefined);
  t.equal(queue.size(), 0);
  t.end();
});

test('the newest item of a key can be taken, and any item removed', (t) => {
  const { queue, rest } = aQueue('a1', 'a2', 'a3', 'b1');
  t.equal(queue.takeNewest('a')?.name, 'a3');
  t.equal(queue.takeNewest('x'), undefined);
  t.equal(queue.takeNewest('b')?.name, 'b1');
  const late = { key: 'c', name: 'c1' };
  queue.add('c', late);
  queue.remove('c', late);
  queue.remove('c', late);
  queue.remove('a', late);
  t.equal(queue.size(), 2);
  t.equal(rest(), 'a1 a2');
  t.end();
});

test('the key with most items gives way, and the new item counts', (t) => {
  const { queue } = aQueue('a1', 'a2', 'a3', 'b1', 'b2');
  t.equal(queue.largest('a'), 'a');
  t.equal(queue.largest('b'), 'b', 'a tie that includes the new item: no other item is dropped');
  t.equal(queue.largest('c'), 'a');
  t.equal(aQueue().queue.largest('c'), 'c');
  t.end();
});

const operation = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('a', 'b', 'c', 'd') },
  { weight: 2, arbitrary: fc.constant('take') },
  { weight: 1, arbitrary: fc.constantFrom('drop a', 'drop b') },
);

/** Plays operations; `taken` lists the served keys in order. */
function play(operations: readonly string[]) {
  const { queue, add, rest } = aQueue();
  const waiting = new Map<string, number>();
  const count = (key: string, by: number) => waiting.set(key, (waiting.get(key) ?? 0) + by);
  /** Per key with a waiting first item: how often other keys were served since. */
  const served = new Map<string, Map<string, number>>();
  let most = 0;
  operations.forEach((what, i) => {
    if (what === 'take') {
      const item = queue.takeNext();
      if (!item) return;
      count(item.key, -1);
      served.delete(item.key);
      if (waiting.get(item.key)) served.set(item.key, new Map());
      for (const others of served.values()) {
        others.set(item.key, (others.get(item.key) ?? 0) + 1);
        most = Math.max(most, others.get(item.key) ?? 0);
      }
    } else if (what.startsWith('drop')) {
      const item = queue.takeNewest(what.slice(-1));
      if (!item) return;
      count(item.key, -1);
      if (waiting.get(item.key) === 0) served.delete(item.key);
    } else {
      if (!waiting.get(what)) served.set(what, new Map());
      count(what, 1);
      add(`${what}${i}`);
    }
  });
  return { queue, add, rest, waiting, most };
}

test('while the first item of a key waits, every other key is served at most once', (t) => {
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 80, size: 'max' }), (operations) => {
      const { queue, waiting, most } = play(operations);
      return most <= 1 && queue.size() === [...waiting.values()].reduce((sum, each) => sum + each, 0);
    }),
  );
  t.pass();
  t.end();
});

test('a new item is served at the predicted place', (t) => {
  fc.assert(
    fc.property(
      fc.array(operation, { maxLength: 60, size: 'max' }),
      fc.constantFrom('a', 'b', 'x'),
      (operations, key) => {
        const { queue, add, rest } = play(operations);
        const place = queue.placeOf(key);
        add(`${key}new`);
        return rest().split(' ').indexOf(`${key}new`) + 1 === place;
      },
    ),
  );
  t.pass();
  t.end();
});
