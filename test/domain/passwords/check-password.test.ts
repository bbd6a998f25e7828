import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeCheckPassword } from '../../../src/domain/passwords/check-password.ts';

const hashOf = (cost: string, password: string) => Buffer.from(`${cost}:${password}`);

/** Hashes are text, `cost:password`. `done` is the work, in order. */
function aCheck(...costs: string[]) {
  const known = new Set(costs);
  const done: string[] = [];
  const keys: string[] = [];
  let isFull = false;
  let places = 0;
  const textOf = (hash: Uint8Array) => Buffer.from(hash).toString();
  const costOf = (hash: Uint8Array) => textOf(hash).replace(/:.*/, '');
  const work = (what: string) => {
    if (places !== 1) throw new Error('a hash outside of the bulkhead, or two places for one check');
    done.push(what);
    return Promise.resolve();
  };
  const check = makeCheckPassword({
    hasher: {
      costOf,
      verify: async (hash, password) => {
        await work(costOf(hash));
        return textOf(hash).endsWith(`:${password}`);
      },
      toImitate: (all, done) => all.filter((cost) => cost !== done),
      imitate: (cost) => work(cost),
    },
    costs: { all: () => [...known], note: (hash) => known.add(costOf(hash)) },
    bulkhead: {
      async run(share, [, address], task) {
        keys.push(`${share} ${address}`);
        if (isFull) throw new AuthError('overloaded');
        places++;
        const result = await task();
        places--;
        return result;
      },
    },
  });
  const attempt = (hash: Uint8Array | null, password: string, mayOpen = true) =>
    check({ hash, password, earlier: 0, mayOpen, share: 'login', turn: ['network', 'home'] });
  return {
    attempt,
    done,
    keys,
    fill: () => {
      isFull = true;
    },
  };
}

/** The outcome of a try, and its work in any order. */
async function tried(
  costs: string[],
  hash: Uint8Array | null,
  password: string,
  mayOpen?: boolean,
): Promise<[boolean, string]> {
  const { attempt, done } = aCheck(...costs);
  const result = await attempt(hash, password, mayOpen);
  return [result, done.sort().join(' ')];
}

test('every failure does the same work: one hash of each cost', async (t) => {
  const costs = ['today', 'old', 'older'];
  const work = 'old older today';
  t.strictSame(await tried(costs, null, 'x'), [false, work], 'unknown');
  for (const cost of costs)
    t.strictSame(await tried(costs, hashOf(cost, 'right'), 'wrong'), [false, work], `${cost}, wrong`);
  for (const cost of costs)
    t.strictSame(
      await tried(costs, hashOf(cost, 'right'), 'right', false),
      [true, work],
      `${cost}, disabled`,
    );
});

test("with no cost but today's, a failure computes one hash", async (t) => {
  t.strictSame(await tried(['today'], null, 'x'), [false, 'today']);
  t.strictSame(await tried(['today'], hashOf('today', 'right'), 'wrong'), [false, 'today']);
});

test('the hasher hears how many tries were wrong before', async (t) => {
  const heard: unknown[] = [];
  const check = makeCheckPassword({
    hasher: {
      costOf: () => 'today',
      verify: (_hash, _password, earlier) => Promise.resolve(heard.push(earlier) > 0),
      toImitate: () => [],
      imitate: () => Promise.resolve(),
    },
    costs: { all: () => ['today'], note: () => undefined },
    bulkhead: { run: (_share, _turn, task) => task() },
  });
  const hash = hashOf('today', 'right');
  await check({ hash, password: 'x', earlier: 3, mayOpen: true, share: 'login', turn: ['network', 'home'] });
  t.strictSame(heard, [3]);
});

test('a success computes one hash, that of the account', async (t) => {
  for (const cost of ['today', 'old', 'older'])
    t.strictSame(await tried(['today', 'old', 'older'], hashOf(cost, 'right'), 'right'), [true, cost]);
});

test('once a new cost is met, unknown names compute it too', async (t) => {
  const { attempt, done } = aCheck('today');
  await attempt(hashOf('other', 'right'), 'wrong');
  t.strictSame(done.splice(0), ['other', 'today']);
  await attempt(null, 'x');
  t.strictSame(done.sort(), ['other', 'today']);
});

test('a check waits in the turn of its address, and a refusal comes before any work', async (t) => {
  const { attempt, done, keys, fill } = aCheck('today');
  await attempt(null, 'x');
  t.strictSame(keys, ['login home']);
  done.length = 0;
  fill();
  await t.rejects(attempt(null, 'x'), { code: 'overloaded' });
  t.strictSame(done, []);
});
