import { test } from 'tap';
import type { AuthError } from '../../../src/domain/errors.ts';
import { LANE_PLACES, makeLanes, type LaneTurn } from '../../../src/domain/limits/lanes.ts';
import { aClock } from '../../support/clock.ts';
import { deferred } from '../../support/deferred.ts';
import { someTimers } from '../../support/timers.ts';

const PATIENCE = 10_000;
const ADA = 1;
const BOB = 2;

/** Lanes whose work a test ends piece by piece; `started` lists the pieces in their order. */
function someLanes() {
  const { timers, goOff, waiting } = someTimers();
  const clock = aClock();
  const lanes = makeLanes(PATIENCE, timers, clock);
  const started: string[] = [];
  const ends = new Map<string, { resolve: () => void; reject: (error: Error) => void }>();
  const settled: Record<string, string> = {};
  const work = (name: string, turn: LaneTurn = { token: 1 }, account = ADA) => {
    const end = deferred();
    ends.set(name, end);
    const run = lanes.run(account, turn, () => {
      started.push(name);
      return end.promise;
    });
    const note = (how: string) => {
      settled[name] = how;
    };
    run.then(
      () => {
        note('done');
      },
      (error: unknown) => {
        const { code, reason, message } = error as Partial<AuthError>;
        note([code ?? message, reason].filter(Boolean).join(' '));
      },
    );
  };
  /** Everything that can go on without another end. */
  const rest = () => new Promise((resolve) => setImmediate(resolve));
  const end = async (name: string) => {
    ends.get(name)?.resolve();
    await rest();
  };
  /** Ends each piece as soon as it has started. */
  const endAll = async () => {
    await rest();
    // The list grows meanwhile.
    for (const name of started) await end(name);
  };
  return { work, started, settled, end, endAll, rest, ends, goOff, waiting, clock };
}

test('one piece of work of an account is under way, and accounts do not wait for each other', async (t) => {
  const { work, started, end, rest } = someLanes();
  work('a');
  work('b');
  work('of Bob', { token: 1 }, BOB);
  await rest();
  t.strictSame(started, ['a', 'of Bob']);
  await end('of Bob');
  t.strictSame(started, ['a', 'of Bob']);
  await end('a');
  t.strictSame(started, ['a', 'of Bob', 'b']);
});

test('the lane goes on after work that fails, and is free after the last', async (t) => {
  const { work, started, settled, ends, rest, end, waiting } = someLanes();
  work('a');
  work('b');
  ends.get('a')?.reject(new Error('of the work'));
  await rest();
  t.strictSame(settled, { a: 'of the work' });
  await end('b');
  work('c');
  await rest();
  t.strictSame(started, ['a', 'b', 'c']);
  t.strictSame(waiting(), [], 'what has had its turn waits for no timer');
});

test('a loop on one token delays a service, a proof and another token by one piece of its work each', async (t) => {
  const { work, started, endAll } = someLanes();
  for (let i = 0; i < 20; i++) work(`loop ${i}`);
  work('other', { token: 2 });
  work('login', 'proof');
  work('disable', 'service');
  await endAll();
  t.strictSame(started.slice(0, 6), ['loop 0', 'loop 1', 'login', 'disable', 'other', 'loop 2']);
  t.equal(started.length, 23);
});

test('of 34 of one token one is refused, and of 34 tokens', async (t) => {
  for (const tokenOf of [() => 1, (i: number) => i]) {
    const { work, started, settled, endAll, rest } = someLanes();
    for (let i = 0; i < LANE_PLACES + 2; i++) work(`${i}`, { token: tokenOf(i) });
    await rest();
    t.strictSame(settled, { [LANE_PLACES + 1]: 'rate_limited lane' });
    await endAll();
    t.equal(started.length, LANE_PLACES + 1);
  }
});

test('in a full lane, whoever has most gives way to a newcomer with less', async (t) => {
  const { work, started, settled, endAll, rest } = someLanes();
  for (let i = 0; i < LANE_PLACES; i++) work(`loop ${i}`);
  work('of the owner', { token: 2 });
  for (const [name, turn] of [
    ['another of the owner', { token: 2 }],
    ['login', 'proof'],
    ['disable', 'service'],
  ] as const)
    work(name, turn);
  await rest();
  t.strictSame(settled, {
    'loop 29': 'rate_limited lane',
    'loop 30': 'rate_limited lane',
    'loop 31': 'rate_limited lane',
  });
  await endAll();
  t.ok(started.indexOf('disable') < started.indexOf('loop 3'));
  t.equal(started.length, LANE_PLACES + 1);
});

test('a full line of a token keeps nobody from ending it', async (t) => {
  const { work, started, settled, endAll, rest } = someLanes();
  for (let i = 0; i <= LANE_PLACES; i++) work(`loop ${i}`, { token: 7 });
  work('its end', { ending: 7 });
  await rest();
  t.strictSame(settled, { [`loop ${LANE_PLACES}`]: 'rate_limited lane' });
  await endAll();
  t.strictSame(started.slice(0, 3), ['loop 0', 'loop 1', 'its end']);
});

test('a full lane whose work has taken long is an outage', async (t) => {
  const { work, settled, end, rest, clock } = someLanes();
  for (let i = 0; i <= LANE_PLACES; i++) work(`loop ${i}`);
  clock.pass(PATIENCE / 2);
  work('late');
  await end('loop 0');
  work('in time, 1');
  work('in time, 2');
  await rest();
  t.match(settled, { late: 'unavailable', 'in time, 2': 'rate_limited lane' });
});

test('a wait beyond the patience is an outage, and leaves its place', async (t) => {
  const { work, started, settled, goOff, waiting, rest, endAll } = someLanes();
  work('slow');
  for (let i = 0; i < LANE_PLACES; i++) work(`${i}`);
  t.strictSame(new Set(waiting()), new Set([PATIENCE]));
  goOff();
  await rest();
  t.equal(Object.values(settled).filter((how) => how === 'unavailable').length, LANE_PLACES);
  for (let i = 0; i < LANE_PLACES; i++) work(`later ${i}`);
  await endAll();
  t.equal(started.length, 1 + LANE_PLACES, 'the slow one, and all that came later');
});
