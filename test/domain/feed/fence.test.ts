import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeFence, type FeedLook } from '../../../src/domain/feed/fence.ts';

/** A store whose clock and renewals the test moves with each look. */
function aWorld(script: readonly (Partial<FeedLook> | Error)[]) {
  let looks = 0;
  let now = 0;
  let asked = 0;
  const base: FeedLook = { epoch: 'e', last: 41, renewed: 0, now: 1_000_000 };
  const seen: number[] = [];
  const fence = makeFence({
    look() {
      const step = script[Math.min(looks, script.length - 1)] ?? {};
      looks++;
      if (step instanceof Error) return Promise.reject(step);
      return Promise.resolve({ ...base, now: base.now + now, ...step });
    },
    ask: () => {
      asked++;
      return Promise.reject(new Error('a full store'));
    },
    clock: { monotonic: () => now },
    pause: async (ms) => {
      now += ms;
      seen.push(looks);
      await new Promise(setImmediate);
    },
  });
  return { fence, looks: () => looks, asked: () => asked };
}

const forever = () => new AbortController().signal;

test('a fence waits for a renewal that began after the call', async (t) => {
  const { fence, looks, asked } = aWorld([
    { renewed: 999_000 },
    // It began before the call, or so short after it that the clocks do not tell.
    { renewed: 1_000_000 },
    { renewed: 1_000_100 },
    { renewed: 1_000_101, last: 50 },
  ]);
  t.strictSame(await fence(forever()), { epoch: 'e', seq: 50 });
  t.equal(looks(), 4);
  t.equal(asked(), 3, 'with each look it asks for one');
});

test('the first look proves nothing, however late the renewal seems to be', async (t) => {
  const { fence, looks } = aWorld([{ renewed: 9_000_000 }, { renewed: 9_000_000 }]);
  await fence(forever());
  t.equal(looks(), 2);
});

test('another epoch, or a clock that was set, begins the wait again', async (t) => {
  const other = { epoch: 'f', renewed: 1_000_000 };
  const ofEpoch = aWorld([{}, other, other, { epoch: 'f', renewed: 1_001_000, last: 2 }]);
  t.strictSame(await ofEpoch.fence(forever()), { epoch: 'f', seq: 2 });
  t.equal(ofEpoch.looks(), 4);
  for (const jump of [3_600_000, -3_600_000]) {
    const now = 1_000_000 + jump;
    const set = aWorld([
      {},
      { now, renewed: now },
      { now: now + 250, renewed: now },
      { now: now + 500, renewed: now + 200 },
    ]);
    await set.fence(forever());
    t.equal(set.looks(), 4, `${jump}`);
  }
});

test('whoever comes during a look waits for a later one', async (t) => {
  const { fence, looks } = aWorld([
    {},
    { renewed: 1_000_200 },
    { renewed: 1_000_400 },
    { renewed: 1_000_400 },
  ]);
  const first = fence(forever());
  const second = fence(forever());
  await first;
  t.equal(looks(), 2);
  await second;
  t.equal(looks(), 3, 'its first look was the second');
});

test('an outage is waited for, and told of if it lasts until the end', async (t) => {
  const outage = new AuthError('unavailable');
  const back = aWorld([{}, outage, { renewed: 1_000_250 }]);
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
