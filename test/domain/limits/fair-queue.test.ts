import fc from 'fast-check';
import { test } from 'tap';
import { makeFifo, makeRoundRobin } from '../../../src/domain/limits/fair-queue.ts';

const LEVELS = 3;

/** A queue of three levels. An item's name begins with its path, a letter a level. */
function aQueue(...names: string[]) {
  const queue = makeRoundRobin(() => makeRoundRobin(() => makeRoundRobin(() => makeFifo<string>())));
  const pathOf = (name: string) => Array.from(name.slice(0, LEVELS));
  const add = (name: string) => {
    queue.add(pathOf(name), name);
  };
  names.forEach(add);
  return {
    queue,
    pathOf,
    add,
    remove: (name: string) => {
      queue.remove(pathOf(name), name);
    },
    loserTo: (name: string) => queue.loserTo(pathOf(name)),
    rest: () => Array.from({ length: queue.size() }, () => queue.takeNext()).join(' '),
  };
}

test('keys take turns on each level, and a line serves its oldest item', (t) => {
  const flood = ['axp1', 'axp2', 'axq1', 'axr1', 'ays1', 'ays2'];
  t.equal(aQueue(...flood, 'bxp1', 'bxp2').rest(), 'axp1 bxp1 ays1 bxp2 axq1 ays2 axr1 axp2');
  const { queue, add, remove, rest } = aQueue('axp1', 'axp2', 'axq1');
  t.equal(queue.takeNext(), 'axp1');
  add('ayp1');
  add('axp3');
  t.strictSame(
    [[], ['a'], ['a', 'x'], ['a', 'x', 'p'], ['b']].map((path) => queue.size(path)),
    [4, 4, 3, 2, 0],
  );
  remove('axp3');
  t.equal(rest(), 'axq1 ayp1 axp2');
  t.equal(queue.takeNext(), undefined);
  t.equal(queue.size(), 0);
  t.end();
});

test('on each level the largest key gives way, and the new item counts', (t) => {
  const { loserTo } = aQueue('axp1', 'axp2', 'axq1', 'ayp1', 'bxp1', 'bxp2', 'bxp3');
  t.equal(loserTo('cxp'), 'axp2', 'the newest of the largest, down to the address');
  t.equal(loserTo('bxp'), undefined, 'a tie: no other item is dropped');
  t.equal(loserTo('byp'), 'bxp3', 'another network of the largest');
  t.equal(loserTo('axq'), undefined);
  t.equal(loserTo('ayq'), 'axp2');
  t.equal(aQueue('axp1', 'bxp1').loserTo('cxp'), undefined);
  t.equal(aQueue('axp1', 'axp2', 'bxp1', 'bxp2').loserTo('cxp'), 'bxp2', 'of equals the last in turn');
  t.equal(aQueue().loserTo('axp'), undefined);
  t.end();
});

const path = fc
  .tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('x', 'y'), fc.constantFrom('p', 'q'))
  .map((keys) => keys.join(''));
const operations = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: path },
    { weight: 2, arbitrary: fc.constant('take') },
    { weight: 1, arbitrary: fc.constantFrom('drop axp', 'drop bxp') },
  ),
  { maxLength: 80, size: 'max' },
);

/** Plays operations. `most` is how often a key was served while another of its level waited for its turn. */
function play(operations: readonly string[]) {
  const all = aQueue();
  const { queue, pathOf, add, remove } = all;
  const waiting: string[] = [];
  /** For each key with waiting items: how often others of its level were served since its own last turn. */
  const since = new Map<string, Map<string, number>>();
  let most = 0;
  const keysOf = (name: string) => [1, 2, 3].map((level) => name.slice(0, level));
  const gone = (name: string) => {
    waiting.splice(waiting.indexOf(name), 1);
    for (const key of keysOf(name)) if (!waiting.some((other) => other.startsWith(key))) since.delete(key);
  };
  const noteServed = (name: string) => {
    for (const key of keysOf(name)) {
      if (since.has(key)) since.set(key, new Map());
      for (const [other, served] of since) {
        if (other === key || other.length !== key.length || other.slice(0, -1) !== key.slice(0, -1)) continue;
        served.set(key, (served.get(key) ?? 0) + 1);
        most = Math.max(most, served.get(key) ?? 0);
      }
    }
  };
  operations.forEach((what, i) => {
    if (what === 'take') {
      const name = queue.takeNext();
      if (name === undefined) return;
      gone(name);
      noteServed(name);
    } else if (what.startsWith('drop')) {
      const name = waiting.findLast((each) => each.startsWith(what.slice(-LEVELS)));
      if (name === undefined) return;
      remove(name);
      gone(name);
    } else {
      const name = `${what}${i}`;
      for (const key of keysOf(name)) if (!since.has(key)) since.set(key, new Map());
      waiting.push(name);
      add(name);
    }
  });
  return { ...all, pathOf, waiting, most };
}

test('while a key waits, every other key of its level is served at most once', (t) => {
  fc.assert(
    fc.property(operations, (all) => {
      const { queue, waiting, most, rest } = play(all);
      return (
        most <= 1 &&
        queue.size() === waiting.length &&
        rest().split(' ').sort().join() === waiting.sort().join()
      );
    }),
  );
  t.pass();
  t.end();
});

test('a new item is served at the predicted place', (t) => {
  fc.assert(
    fc.property(operations, path, (all, key) => {
      const { queue, pathOf, add, rest } = play(all);
      const place = queue.placeOf(pathOf(key));
      add(`${key}new`);
      return rest().split(' ').indexOf(`${key}new`) + 1 === place;
    }),
  );
  t.pass();
  t.end();
});

/** Arrivals a service: less than a third, as many as are served, far more. */
const GREED = { modest: 0.25, greedy: 1, flood: 5 };

/** Keys `a`, `b` and `c` of one level compete for 12 places. `lost` are the keys of refused or dropped items. */
function compete(rates: Record<string, number>, level: number, random: () => number) {
  const { queue, add, remove, loserTo } = aQueue();
  const served: string[] = [];
  const lost: string[] = [];
  const waits = new Map<string, number[]>();
  const keyOf = (name: string) => name[level] ?? '';
  for (let round = 0; round < 120; round++) {
    const coming = Object.entries(rates).flatMap(([key, rate]) =>
      round % Math.max(1, 1 / rate) === 0 ? Array.from({ length: Math.ceil(rate) }, () => key) : [],
    );
    const order = coming.map((key) => ({ key, at: random() })).sort((one, other) => one.at - other.at);
    for (const { key } of order) {
      // An attacker has many networks and addresses: the levels below are new ones for each item.
      const below = String.fromCharCode(200 + random()).repeat(LEVELS - 1 - level);
      const name = `${'s'.repeat(level)}${key}${below} ${round}`;
      const loser = queue.size() < 12 ? null : (loserTo(name) ?? name);
      if (loser !== null) lost.push(keyOf(loser));
      if (loser !== null && loser !== name) remove(loser);
      if (loser !== name) add(name);
    }
    const name = queue.takeNext() ?? '';
    served.push(keyOf(name));
    waits.set(keyOf(name), [...(waits.get(keyOf(name)) ?? []), round - Number(name.split(' ')[1])]);
  }
  const servedOf = (key: string) => served.filter((each) => each === key).length;
  return { servedOf, lost, longestWaitOf: (key: string) => Math.max(...(waits.get(key) ?? [0])) };
}

test('in any mix of greed, the modest lose nothing and wait for one turn of each, the rest share equally', (t) => {
  const greed = fc.constantFrom(...Object.values(GREED));
  const mix = fc.record({ a: greed, b: greed, c: greed });
  const numbers = fc.infiniteStream(fc.nat(1000));
  fc.assert(
    fc.property(mix, fc.nat(LEVELS - 1), numbers, (rates, level, random) => {
      const { servedOf, lost, longestWaitOf } = compete(rates, level, () => Number(random.next().value));
      const modest = Object.entries(rates).filter(([, rate]) => rate < 1);
      const shares = Object.entries(rates)
        .filter(([, rate]) => rate >= 1)
        .map(([key]) => servedOf(key));
      const spread = shares.length === 0 ? 0 : Math.max(...shares) - Math.min(...shares);
      return spread <= 1 && modest.every(([key]) => !lost.includes(key) && longestWaitOf(key) <= 2);
    }),
  );
  t.pass();
  t.end();
});
