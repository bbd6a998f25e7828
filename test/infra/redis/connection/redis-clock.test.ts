import { test } from 'tap';
import { makeRedisClock } from '../../../../src/infra/redis/connection/redis-clock.ts';

const SECOND = 1_000_000;

/** The service's clock, Redis's clock, and a network with a delay in microseconds each way. */
function aNetwork() {
  const world = {
    ours: 500,
    ahead: 1_795_000_000 * SECOND,
    there: 0,
    back: 0,
    asked: [] as string[],
    connectionEpoch: {},
  };
  const now = () => world.ours + world.ahead;
  const run = () => {
    world.ours += world.there;
    const time = now();
    world.ours += world.back;
    return Promise.resolve(time);
  };
  const clock = makeRedisClock({
    ask: async (key) => {
      world.asked.push(key);
      const time = await run();
      return [String(Math.floor(time / SECOND)), String(time % SECOND)];
    },
    connectionEpoch: (expected) => {
      if (expected && expected !== world.connectionEpoch) throw new Error('other connections');
      return world.connectionEpoch;
    },
    masterOf: ([master = '']) => master,
    monotonic: () => world.ours,
  });
  /** @returns how many microseconds too late a command estimates its send time. */
  const send = async (key = 'a1', timeOf = (time: number): number | null => time) => {
    const truth = now();
    const { sentAt, learn } = await clock.stamp(key);
    learn(timeOf(await run()));
    return sentAt - truth;
  };
  return { world, clock, send };
}

test('sends TIME once, and learns from every answer', async (t) => {
  const { world, send } = aNetwork();
  Object.assign(world, { there: 300, back: 200 });
  t.equal(await send(), -200, 'too early by the return trip, and the TIME round trip counts as elapsed');
  t.equal(await send(), -200);
  Object.assign(world, { there: 3, back: 2 });
  await send();
  t.equal(await send(), -2, 'a quick answer is more exact');
  Object.assign(world, { there: 30_000, back: 20_000 });
  await send();
  t.equal(await send(), -2, 'and a slow one does not make it worse');
  t.strictSame(world.asked, ['a1']);
});

test('follows a changed clock with the next answer', async (t) => {
  const { world, send } = aNetwork();
  Object.assign(world, { there: 30, back: 20 });
  await send();
  for (const jump of [7 * SECOND, -7 * SECOND]) {
    world.ahead += jump;
    t.equal(await send('a1', () => null), -20 - jump, 'not yet known');
    await send();
    const error = await send();
    t.ok(-20 <= error && error <= 30, `within a round trip: ${error} µs`);
  }
  t.equal(world.asked.length, 1);
});

test('sends TIME again after a minute, on other connections and to another master', async (t) => {
  const { world, send } = aNetwork();
  await send();
  world.ours += 60 * SECOND;
  await send();
  t.strictSame(world.asked, ['a1']);
  world.ours += 60 * SECOND + 1;
  world.ahead -= 3 * SECOND;
  t.equal(await send(), 0);
  t.strictSame(world.asked, ['a1', 'a1']);
  world.connectionEpoch = {};
  await send();
  t.equal(world.asked.length, 3);
  t.equal(await send('b1'), 0);
  t.equal(await send('b2'), 0);
  t.strictSame(world.asked.slice(3), ['b1']);
});

test('a reply on other connections teaches nothing, and is refused', async (t) => {
  const { world, clock, send } = aNetwork();
  const { learn } = await clock.stamp('a1');
  world.connectionEpoch = {};
  t.throws(() => {
    learn(world.ours + world.ahead);
  }, 'other connections');
  await send();
  t.equal(world.asked.length, 2);
});
