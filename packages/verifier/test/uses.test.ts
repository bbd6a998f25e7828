import { test, type Test } from 'tap';
import { RefusedError } from '../src/connection.ts';
import { makeUses } from '../src/uses.ts';
import { deferred } from '../../../test/support/deferred.ts';
import { until } from '../../../test/support/until.ts';
import { unavailable } from '../src/verifier-error.ts';

const [INTERVAL, PAUSE] = [50, 600];

/** Reports to a Latchkey that the test controls. */
function aWorld(t: Test, size = 10_000) {
  const world = {
    /** The ids of each report that Latchkey took. */
    taken: [] as (readonly number[])[],
    asked: 0,
    answer: (): Promise<void> => Promise.resolve(),
    outcomes: [] as unknown[],
  };
  const uses = makeUses({
    report: async (tokens) => {
      world.asked++;
      await world.answer();
      world.taken.push(tokens);
    },
    size,
    onReport: (failure) => world.outcomes.push(failure),
    times: { interval: INTERVAL, pause: PAUSE },
  });
  t.teardown(() => {
    uses.close();
  });
  return { world, uses };
}

test('each token is reported once an interval, and nothing without a use', async (t) => {
  const { world, uses } = aWorld(t);
  for (const sid of [7, 8, 7, 7]) uses.note(sid);
  t.equal(world.asked, 0);
  await until(() => world.taken.length > 0);
  await new Promise((resolve) => setTimeout(resolve, 3 * INTERVAL));
  t.strictSame(world.taken, [[7, 8]]);
  uses.note(8);
  await until(() => world.taken.length > 1);
  t.strictSame(
    [world.taken, world.outcomes],
    [
      [[7, 8], [8]],
      [null, null],
    ],
  );
});

test('Latchkey gets at most 500 at once, and no more wait than are remembered', async (t) => {
  const { world, uses } = aWorld(t, 1100);
  for (let sid = 1; sid <= 1200; sid++) uses.note(sid);
  await until(() => world.taken.length > 2);
  t.strictSame(
    world.taken.map(({ length }) => length),
    [500, 500, 100],
  );
  t.equal(new Set(world.taken.flat()).size, 1100);
});

test('a use that was not reported is reported later, beside those that came meanwhile', async (t) => {
  const { world, uses } = aWorld(t);
  const first = deferred();
  const failure = unavailable('unreachable', 'away');
  world.answer = () => first.promise;
  for (let sid = 1; sid <= 600; sid++) uses.note(sid);
  await until(() => world.asked > 0);
  uses.note(700);
  uses.note(1);
  world.answer = () => Promise.reject(failure);
  first.resolve();
  await until(() => world.outcomes.length > 0);
  world.answer = () => Promise.resolve();
  await until(() => world.outcomes.includes(null));
  const [batch, ...later] = world.taken;
  t.equal(batch?.length, 500);
  t.strictSame(
    later.flat().sort((a, b) => a - b),
    [1, ...Array.from({ length: 100 }, (_, i) => 501 + i), 700],
  );
  t.strictSame(new Set(world.outcomes), new Set([failure, null]));
});

test('an older Latchkey is asked again after the pause', async (t) => {
  const { world, uses } = aWorld(t);
  world.answer = () => Promise.reject(new RefusedError(405, 'unreachable', 'older'));
  uses.note(7);
  await until(() => world.outcomes.length > 0);
  const since = performance.now();
  uses.note(8);
  world.answer = () => Promise.resolve();
  await until(() => world.taken.length > 0);
  t.ok(performance.now() - since >= PAUSE - 100, 'not after an interval');
  t.strictSame(world.taken, [[7, 8]]);
  uses.note(9);
  await until(() => world.taken.length > 1);
});

test('it reports nothing once it is closed', async (t) => {
  const { world, uses } = aWorld(t);
  uses.note(7);
  uses.close();
  uses.note(8);
  await new Promise((resolve) => setTimeout(resolve, 3 * INTERVAL));
  t.equal(world.asked, 0);
});
