import { test } from 'tap';
import { AuthError } from '../../src/domain/errors.ts';
import { makeRetrySpread } from '../../src/http/retry-spread.ts';
import { buildTestApp } from '../support/app.ts';
import { call } from '../support/client.ts';

/** A spread on a clock that the test sets, with a random number that is always the greatest. */
function aSpread(retryWindow = 20) {
  const at = { ms: 0, random: 0.999 };
  const clock = { monotonic: () => at.ms };
  const spread = makeRetrySpread({ clock, random: () => at.random, retryWindow });
  const refuse = (times: number) => Array.from({ length: times }, () => spread('unavailable'));
  return { at, spread, refuse };
}

test('a few refusals a second are not spread', (t) => {
  const { at, refuse } = aSpread();
  for (const second of [0, 1, 2]) {
    at.ms = second * 1000;
    t.strictSame(new Set(refuse(100)), new Set([0]));
  }
  t.end();
});

test('the more refusals, the longer the spread, up to 9 seconds', (t) => {
  const { refuse } = aSpread();
  t.strictSame(new Set(refuse(100)), new Set([0]));
  t.strictSame(new Set(refuse(100)), new Set([1]));
  t.strictSame(new Set(refuse(800)), new Set([2, 3, 4, 5, 6, 7, 8, 9]));
  t.strictSame(new Set(refuse(5000)), new Set([9]));
  t.end();
});

test('clients return within half of the retry window, if there is one', (t) => {
  for (const [retryWindow, longest] of [
    [300, 9],
    [10, 4],
    [3, 0],
    [0, 9],
  ] as const)
    t.equal(aSpread(retryWindow).refuse(5000).at(-1), longest, `${retryWindow} s`);
  t.end();
});

test('the spread begins at 0: some clients return at once', (t) => {
  const { at, refuse } = aSpread();
  refuse(5000);
  at.random = 0;
  t.strictSame(refuse(1), [0]);
  at.random = 0.5;
  t.strictSame(refuse(1), [5]);
  t.end();
});

test('the second after counts, and after a quiet second nothing is spread', (t) => {
  const { at, refuse } = aSpread();
  refuse(500);
  at.ms = 1000;
  t.strictSame(refuse(1), [4]);
  at.ms = 2000;
  t.strictSame(refuse(1), [0], 'the second before had one refusal');
  refuse(500);
  at.ms = 4000;
  t.strictSame(refuse(1), [0], 'the second before had none');
  t.end();
});

test('other refusals are neither spread nor counted', (t) => {
  const { spread, refuse } = aSpread();
  const others = ['rate_limited', 'refresh_overlap', 'overloaded'] as const;
  for (let i = 0; i < 500; i++) for (const code of others) spread(code);
  t.strictSame(refuse(1), [0]);
  refuse(500);
  t.strictSame(others.map(spread), [0, 0, 0]);
  t.end();
});

test('Retry-After is the wait that is needed, and the spread', async (t) => {
  const target = await buildTestApp(t, {
    override: (app) => ({
      ...app,
      loadShedding: {
        maxLag: 0,
        lag: () => 0,
        hashRefusal: () => new AuthError('unavailable', { retryAfter: 7 }),
        isStoreFull: () => false,
      },
      clock: { ...app.clock, monotonic: () => 0 },
      random: () => 0.999,
    }),
  });
  const waits: unknown[] = [];
  for (let i = 0; i < 201; i++) {
    const response = await call(target, 'POST /api/auth', { payload: { username: 'a', password: 'b' } });
    waits.push(response.headers['retry-after']);
  }
  t.strictSame([waits[0], waits[100], waits[200]], ['7', '8', '9']);
});
