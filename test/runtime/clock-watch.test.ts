import { test } from 'tap';
import { makeClockWatch } from '../../src/runtime/clock-watch.ts';

const TODO = 'synchronize the clocks of all servers with NTP';

/** Two stores with the right time, and a replica whose clock the test sets. Times in seconds. */
function aReplica() {
  let [real, ours, roundTrip] = [1_795_000_000, 0, 0];
  const wrong = { redis: [0], postgres: [0] };
  const away = new Set<string>();
  const logged: unknown[] = [];
  const ask = (store: keyof typeof wrong) => async () => {
    await Promise.resolve();
    if (away.has(store)) throw new Error('away');
    const times = wrong[store].map((ahead) => (real + ahead + roundTrip / 2) * 1000);
    real += roundTrip;
    return times;
  };
  const log = (level: string) => (fields: object, text: string) => logged.push([level, fields, text]);
  const watch = makeClockWatch({
    others: [
      { name: 'Redis', ask: ask('redis') },
      { name: 'PostgreSQL', ask: ask('postgres') },
    ],
    clock: { now: () => (real + ours) * 1000, monotonic: () => real * 1000 },
    leeway: 5,
    logger: { warn: log('warn') as never, info: log('info') as never },
  });
  return {
    watch,
    wrong,
    away,
    logged,
    pass: (seconds: number) => (real += seconds),
    slow: (seconds: number) => (roundTrip = seconds),
    /** @returns whether the clock is trusted, and whether it is wrong. */
    set: async (ahead: number) => {
      ours = ahead;
      await watch.compare();
      return [watch.isTrusted(), watch.isWrong()];
    },
  };
}

const RIGHT = [true, false];
const DOUBTED = [false, false];
const WRONG = [false, true];

test('a clock is wrong beyond the leeway if both stores say so, ahead and behind', async (t) => {
  const { watch, set } = aReplica();
  t.strictSame([watch.isTrusted(), watch.isWrong(), watch.state(), watch.skews()], [...RIGHT, 'ok', []]);
  for (const sign of [1, -1]) {
    t.strictSame(await set(sign * 5), RIGHT);
    t.equal(watch.state(), 'ok');
    t.strictSame(await set(sign * 5.001), WRONG);
    await set(sign * 1200);
    t.match(watch.skews(), [
      { store: 'Redis', seconds: sign * 1200 },
      { store: 'PostgreSQL', seconds: sign * 1200 },
    ]);
    const where = sign > 0 ? '1200 s ahead of' : '1200 s behind';
    t.equal(watch.state(), `${where} Redis, ${where} PostgreSQL: ${TODO}`);
    t.strictSame(await set(0), RIGHT);
  }
});

test('a clock at the limit does not switch with each comparison', async (t) => {
  const { set, logged } = aReplica();
  t.strictSame(await set(5.1), WRONG);
  t.strictSame(await set(4.1), WRONG);
  t.strictSame(await set(3.9), RIGHT);
  t.strictSame(await set(4.9), RIGHT);
  t.equal(logged.length, 4);
});

test('one store that agrees is enough, and two that agree on no time prove nothing', async (t) => {
  const { watch, wrong, set } = aReplica();
  wrong.redis = [600];
  t.strictSame(await set(0), RIGHT);
  t.equal(watch.state(), `600 s behind Redis: ${TODO}`);
  t.strictSame(await set(-1200), DOUBTED);
  wrong.redis = [0, 0, 600];
  t.strictSame(await set(0), RIGHT);
  t.match(
    watch.skews(),
    [{ seconds: -600 }, { seconds: 0 }],
    'of several masters, the one that differs most',
  );
});

test('the only store that answered can take the trust, and not the readiness', async (t) => {
  const { away, set } = aReplica();
  away.add('postgres');
  t.strictSame(await set(1200), DOUBTED);
  away.delete('postgres');
  t.strictSame(await set(1200), WRONG);
});

test('the time of a store that is away goes on, while our clock is set', async (t) => {
  const { away, pass, set } = aReplica();
  t.strictSame(await set(0), RIGHT);
  away.add('postgres');
  pass(3600);
  t.strictSame(await set(1200), WRONG);
  pass(3600);
  t.strictSame(await set(0), RIGHT);
});

test('a slow answer counts with its uncertainty, and not at all above a second', async (t) => {
  const { watch, away, slow, set } = aReplica();
  away.add('postgres');
  slow(1.1);
  t.strictSame(await set(1200), RIGHT);
  t.strictSame(watch.skews(), []);
  slow(0.9);
  t.strictSame(await set(5.4), RIGHT);
  t.strictSame(await set(5.6), DOUBTED);
});

test('each change is logged once, with both times', async (t) => {
  const { logged, set } = aReplica();
  for (const ahead of [1200, 1200, 0, 0]) await set(ahead);
  const times = (ours: string) => ({ ours: `2026-11-18T${ours}.000Z`, theirs: '2026-11-18T11:06:40.000Z' });
  const differs = (store: string) => `the clock of this replica differs from that of ${store}: ${TODO}`;
  const agrees = (store: string) => `the clock of this replica agrees with that of ${store} again`;
  const stores = ['Redis', 'PostgreSQL'];
  t.strictSame(logged, [
    ...stores.map((store) => ['warn', times('11:26:40'), differs(store)]),
    ...stores.map((store) => ['info', times('11:06:40'), agrees(store)]),
  ]);
});

test('without a store that answers, a jump is logged once, and takes no trust', async (t) => {
  const { watch, away, logged, pass, set } = aReplica();
  away.add('redis').add('postgres');
  t.strictSame(await set(0), RIGHT);
  pass(3600);
  t.strictSame([await set(4), await set(4)], [RIGHT, RIGHT]);
  t.strictSame(logged, []);
  for (const ahead of [3604, 3604, 4]) t.strictSame(await set(ahead), RIGHT);
  t.match(logged, [
    ['warn', { seconds: 3600 }, /^the clock of this machine jumped/],
    ['warn', { seconds: -3600 }, /^the clock of this machine jumped/],
  ]);
  t.equal(watch.state(), 'ok');
});
