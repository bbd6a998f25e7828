import { test, type Test } from 'tap';
import { SYSTEM_CLOCK } from '../src/clock.ts';
import { makeConfirm } from '../src/confirm.ts';
import { RefusedError } from '../src/connection.ts';
import { deferred } from '../../../test/support/deferred.ts';
import { until } from '../../../test/support/until.ts';
import { unavailable } from '../src/verifier-error.ts';

const TIMES = { jitter: 20, repeat: 300, pause: 600, patience: 100 };

/** Confirms to a Latchkey that the test controls. */
function aWorld(t: Test, jitter = TIMES.jitter) {
  const world = {
    /** Each request, and when it came. */
    asked: [] as { what: string; at: number }[],
    /** The seconds that Latchkey answers. */
    answer: (): Promise<number> => Promise.resolve(0),
    goodbye: (): Promise<void> => Promise.resolve(),
    requests: () => world.asked.map(({ what }) => what),
  };
  const note = (what: string) => world.asked.push({ what, at: performance.now() });
  const confirm = makeConfirm({
    confirm(position) {
      note(position);
      return world.answer();
    },
    goodbye() {
      note('goodbye');
      return world.goodbye();
    },
    clock: SYSTEM_CLOCK,
    times: { ...TIMES, jitter },
  });
  t.teardown(() => confirm.close());
  confirm.connected();
  return { world, confirm };
}

const pass = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Beats until so many requests were sent. */
async function beatUntil(
  { world, confirm }: ReturnType<typeof aWorld>,
  count: number,
  position = 'a-1',
): Promise<void> {
  await until(() => {
    const isEnough = world.asked.length >= count;
    if (!isEnough) confirm.applied(position);
    return isEnough;
  });
}

test('a position is confirmed once, and again after a time', async (t) => {
  const both = aWorld(t);
  await beatUntil(both, 1);
  await beatUntil(both, 2);
  const [first, second] = both.world.asked;
  t.ok((second?.at ?? 0) - (first?.at ?? 0) >= TIMES.repeat - 5, 'not at each heartbeat');
  await beatUntil(both, 3, 'a-2');
  t.strictSame(both.world.requests(), ['a-1', 'a-1', 'a-2']);
});

test('the newest position is confirmed, and one request is under way', async (t) => {
  const { world, confirm } = aWorld(t, 100);
  const answer = deferred<number>();
  world.answer = () => answer.promise;
  for (const position of ['a-1', 'a-2', 'a-3']) confirm.applied(position);
  await until(() => world.asked.length > 0);
  confirm.applied('a-4');
  await pass(200);
  t.strictSame(world.requests(), ['a-3']);
  answer.resolve(0);
  await beatUntil({ world, confirm }, 2, 'a-4');
  t.strictSame(world.requests(), ['a-3', 'a-4']);
});

test('it waits as long as Latchkey asks for, and a minute if Latchkey is older', async (t) => {
  for (const [answer, least] of [
    [() => Promise.resolve(0.3), 300],
    [() => Promise.reject(new RefusedError(404, 'unexpected_answer', 'older')), TIMES.pause],
    [() => Promise.reject(new RefusedError(405, 'unexpected_answer', 'older')), TIMES.pause],
  ] as const) {
    const both = aWorld(t);
    both.world.answer = answer;
    await beatUntil(both, 1);
    await pass(2 * TIMES.jitter);
    await beatUntil(both, 2, 'a-2');
    const [first, second] = both.world.asked;
    t.ok((second?.at ?? 0) - (first?.at ?? 0) >= least - 5, `${least} ms`);
  }
});

test('a failure waits as long as Latchkey last asked for', async (t) => {
  const both = aWorld(t);
  both.world.answer = () => Promise.resolve(0.3);
  await beatUntil(both, 1);
  both.world.answer = () => Promise.reject(unavailable('unreachable', 'away'));
  await beatUntil(both, 2, 'a-2');
  await pass(2 * TIMES.jitter);
  await beatUntil(both, 3, 'a-2');
  const [, second, third] = both.world.asked;
  t.ok((third?.at ?? 0) - (second?.at ?? 0) >= 295);
});

test('close ends the requests that hang, so that they keep no process alive', async (t) => {
  const signals: AbortSignal[] = [];
  const hang = (signal: AbortSignal) => {
    signals.push(signal);
    return new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => {
        reject(unavailable('unreachable', 'aborted'));
      });
    });
  };
  const confirm = makeConfirm({
    confirm: (_, signal) => hang(signal),
    goodbye: hang,
    clock: SYSTEM_CLOCK,
    times: TIMES,
  });
  confirm.connected();
  confirm.applied('a-1');
  await until(() => signals.length > 0);
  await confirm.close();
  t.strictSame(
    signals.map(({ aborted }) => aborted),
    [true],
  );
});

test('a failure waits for the next heartbeat', async (t) => {
  const both = aWorld(t);
  both.world.answer = () => Promise.reject(unavailable('unreachable', 'away'));
  await beatUntil(both, 1);
  await pass(3 * TIMES.jitter);
  t.equal(both.world.asked.length, 1);
  both.world.answer = () => Promise.resolve(0);
  await beatUntil(both, 2);
});

test('the goodbye comes after the last confirmation, and once', async (t) => {
  const { world, confirm } = aWorld(t);
  const answer = deferred<number>();
  world.answer = () => answer.promise;
  confirm.applied('a-1');
  await until(() => world.asked.length > 0);
  const closed = confirm.close();
  confirm.applied('a-2');
  await pass(2 * TIMES.jitter);
  t.strictSame(world.requests(), ['a-1']);
  answer.resolve(0);
  await closed;
  await confirm.close();
  await pass(2 * TIMES.jitter);
  t.strictSame(world.requests(), ['a-1', 'goodbye']);
});

test('close waits for no Latchkey that fails or hangs, and needs none that it never reached', async (t) => {
  const { world, confirm } = aWorld(t);
  world.goodbye = () => Promise.reject(unavailable('unreachable', 'away'));
  await t.resolves(confirm.close());
  const hanging = aWorld(t);
  hanging.world.goodbye = () => new Promise(() => undefined);
  await t.resolves(hanging.confirm.close());
  t.strictSame([...world.requests(), ...hanging.world.requests()], ['goodbye', 'goodbye']);
  let asked = 0;
  const ask = () => Promise.reject(new Error(`asked ${++asked} times`));
  await makeConfirm({ confirm: ask, goodbye: ask, clock: SYSTEM_CLOCK }).close();
  t.equal(asked, 0);
});
