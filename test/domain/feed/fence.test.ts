import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeFence, type FeedLook } from '../../../src/domain/feed/fence.ts';

/** A store of which the test says at each look what it has served, or that it fails. Each that asks gets a number. */
function aWorld(script: readonly (Partial<FeedLook> | Error)[]) {
  let looks = 0;
  let asked = 4;
  const asking: boolean[] = [];
  const fence = makeFence({
    look(isAsking) {
      const step = script[Math.min(looks, script.length - 1)] ?? {};
      looks++;
      asking.push(isAsking);
      if (step instanceof Error) return Promise.reject(step);
      const number = isAsking ? ++asked : null;
      return Promise.resolve({ epoch: 'e', last: 41, served: 0, asked: number, ...step });
    },
    pause: () => new Promise(setImmediate),
  });
  return { fence, looks: () => looks, asking };
}

const forever = () => new AbortController().signal;

test('a fence waits until the renewal has served the number that it asked for', async (t) => {
  const { fence, asking } = aWorld([{}, { served: 4 }, { served: 5, last: 50 }]);
  t.strictSame(await fence(forever()), { epoch: 'e', seq: 50 });
  t.strictSame(asking, [true, false, false], 'it asks once');
});

test('what a store says of another number proves nothing', async (t) => {
  const { fence, looks } = aWorld([{ served: 9 }, { served: 9 }]);
  await fence(forever());
  t.equal(looks(), 2, 'nor does the look that asks');
});

test('another epoch begins the wait again', async (t) => {
  const other = { epoch: 'f', served: 9 };
  const { fence, asking } = aWorld([{}, other, other, { epoch: 'f', served: 6, last: 2 }]);
  t.strictSame(await fence(forever()), { epoch: 'f', seq: 2 });
  t.strictSame(asking, [true, false, true, false]);
});

test('who may not ask waits for nothing', async (t) => {
  const { fence, looks } = aWorld([{ asked: null, served: 9 }]);
  const controller = new AbortController();
  const waiting = fence(controller.signal);
  while (looks() < 4) await new Promise(setImmediate);
  controller.abort();
  t.equal(await waiting, null);
});

test('whoever comes during a look asks for a later number', async (t) => {
  const { fence, looks } = aWorld([{}, { served: 5 }, { served: 5 }, { served: 6 }]);
  const first = fence(forever());
  const second = fence(forever());
  await first;
  t.equal(looks(), 2);
  await second;
  t.equal(looks(), 4, 'its number is that of the second look');
});

test('an outage is waited for, and told of if it lasts until the end', async (t) => {
  const outage = new AuthError('unavailable');
  const back = aWorld([{}, outage, { served: 5 }]);
  t.strictSame(await back.fence(forever()), { epoch: 'e', seq: 41 });
  for (const [script, expected] of [
    [[{}], null],
    [[{}, outage], outage],
  ] as const) {
    const controller = new AbortController();
    const { fence } = aWorld(script);
    const waiting = fence(controller.signal).catch((error: unknown) => error);
    await new Promise((resolve) => setTimeout(resolve, 20));
    controller.abort();
    t.equal(await waiting, expected);
    t.equal(await fence(controller.signal), null, 'nobody waits any more');
  }
});
