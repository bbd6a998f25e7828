import { test, type Test } from 'tap';
import type { AttemptSlots } from '../../src/domain/limits/ports.ts';

interface Opened {
  slots: AttemptSlots;
  /** Lets this many milliseconds pass for every attempt so far. */
  pass: (ms: number) => Promise<void>;
}

const TWO = { count: 2, seconds: 60 };

/** The contract of every store of attempts. */
export function attemptSlotsContract(
  kind: string,
  open: (t: Test) => Promise<Opened>,
  skip: false | string = false,
): void {
  const holds = (sentence: string, run: (t: Test, opened: Opened) => Promise<void>) =>
    test(`${kind}: ${sentence}`, { skip }, async (t) => {
      await run(t, await open(t));
    });

  void holds(
    'grants as many slots as the limit, then says when the next is free',
    async (t, { slots, pass }) => {
      const [first, second] = [await taken(slots), await taken(slots)];
      t.not(first, second);
      const wait = await freeIn(slots);
      t.ok(wait > 0 && wait <= 60_000, `${wait}`);
      await pass(20_000);
      const less = await freeIn(slots);
      t.ok(less > 0 && less <= 40_000, `${less}`);
    },
  );

  void holds('tells how many slots were taken before', async (t, { slots, pass }) => {
    const earlier = async () => {
      const reserved = await slots.reserve('a', { count: 3, seconds: 60 });
      return 'slot' in reserved ? reserved.earlier : null;
    };
    t.strictSame([await earlier(), await earlier()], [0, 1]);
    await pass(60_000);
    const first = await taken(slots);
    t.equal(await earlier(), 1, 'those in the window');
    await slots.release('a', first);
    t.equal(await earlier(), 1, 'a released one does not count');
  });

  void holds('each slot is free again after its own window, not earlier', async (t, { slots, pass }) => {
    await taken(slots);
    await pass(30_000);
    await taken(slots);
    await pass(29_000);
    t.ok((await freeIn(slots)) <= 1000);
    await pass(1000);
    await taken(slots);
    const wait = await freeIn(slots);
    t.ok(wait > 20_000 && wait <= 30_000, `${wait}: the second slot is the next to be free`);
  });

  void holds('a refused attempt takes no slot', async (t, { slots, pass }) => {
    await taken(slots);
    await pass(40_000);
    await taken(slots);
    for (let i = 0; i < 5; i++) await freeIn(slots);
    await pass(20_000);
    t.type(await taken(slots), 'string');
  });

  void holds('a released slot is free at once, and only once', async (t, { slots }) => {
    const [first] = [await taken(slots), await taken(slots)];
    await slots.release('a', first);
    await slots.release('a', first);
    const third = await taken(slots);
    await freeIn(slots);
    await slots.release('a', 'none of ours');
    await slots.release('another', third);
    await freeIn(slots);
    await slots.release('a', third);
    t.type(await taken(slots), 'string');
  });

  void holds('all slots can be released', async (t, { slots, pass }) => {
    const only = await taken(slots);
    await slots.release('a', only);
    for (let i = 0; i < 2; i++) await taken(slots);
    await freeIn(slots);
    await pass(60_000);
    await slots.release('a', only);
    t.type(await taken(slots), 'string', 'a release one window later is a no-op');
  });

  void holds('a release leaves the other slots unchanged', async (t, { slots }) => {
    const four = { count: 4, seconds: 60 };
    const ids = [];
    for (let i = 0; i < 4; i++) {
      const reserved = await slots.reserve('a', four);
      ids.push('slot' in reserved ? reserved.slot : '');
    }
    await slots.release('a', ids[1] ?? '');
    t.ok('slot' in (await slots.reserve('a', four)));
    t.ok('freeIn' in (await slots.reserve('a', four)));
    await slots.release('a', ids[3] ?? '');
    await slots.release('a', ids[0] ?? '');
    for (let i = 0; i < 2; i++) t.ok('slot' in (await slots.reserve('a', four)));
    t.ok('freeIn' in (await slots.reserve('a', four)));
  });

  void holds('a release does not lengthen the other slots', async (t, { slots, pass }) => {
    await taken(slots);
    await pass(50_000);
    await slots.release('a', await taken(slots));
    await pass(10_000);
    for (let i = 0; i < 2; i++) await taken(slots);
    t.ok((await freeIn(slots)) > 0);
  });

  void holds('concurrent attempts get no more slots than the limit', async (t, { slots }) => {
    const tries = Array.from({ length: 50 }, () => slots.reserve('a', { count: 7, seconds: 60 }));
    t.equal((await Promise.all(tries)).filter((reserved) => 'slot' in reserved).length, 7);
  });

  void holds('counters are independent', async (t, { slots }) => {
    for (const counter of ['a', 'b', 'a:b']) {
      for (let i = 0; i < 2; i++) t.ok('slot' in (await slots.reserve(counter, TWO)));
    }
  });

  void holds('after the limit is lowered, several slots have to expire first', async (t, { slots, pass }) => {
    for (let i = 0; i < 2; i++) {
      await taken(slots);
      await pass(10_000);
    }
    const one = await slots.reserve('a', { count: 1, seconds: 60 });
    t.ok('freeIn' in one && one.freeIn > 40_000 && one.freeIn <= 50_000, JSON.stringify(one));
    t.ok('slot' in (await slots.reserve('a', { count: 3, seconds: 60 })), 'a raised limit applies at once');
  });
}

async function taken(slots: AttemptSlots): Promise<string> {
  const reserved = await slots.reserve('a', TWO);
  if (!('slot' in reserved)) throw new Error(`no slot free for ${reserved.freeIn} ms`);
  return reserved.slot;
}

async function freeIn(slots: AttemptSlots): Promise<number> {
  const reserved = await slots.reserve('a', TWO);
  if ('slot' in reserved) throw new Error('a slot was free unexpectedly');
  return reserved.freeIn;
}
