import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import {
  makeGuessingLimits,
  type Guess,
  type GuessOrigin,
} from '../../../src/domain/passwords/guessing-limits.ts';
import { makeLimitAttempts } from '../../../src/domain/limits/limit-attempts.ts';
import type { Allowance } from '../../../src/domain/limits/ports.ts';
import { makeMemoryAttemptSlots } from '../../../src/infra/memory/attempt-slots.ts';
import { deferred } from '../../support/deferred.ts';

interface Given {
  account?: Allowance | null;
  network?: Allowance | null;
  /** The step that answers 503. */
  away?: 'reserve' | 'release';
  fault?: Error;
}

const TWO = { count: 2, seconds: 60 };
const STRANGER: GuessOrigin = { fingerprints: ['elsewhere'], token: null, network: '192.0.2.0/24' };
const failure = () => ({ event: 'password.reset_failed' }) as const;
const ADA = { userId: 1, knownCallers: ['home', 'work', ''] };

function limits({ account = TWO, network = TWO, away, fault }: Given = {}) {
  let now = 0;
  const slots = makeMemoryAttemptSlots(() => now);
  const done: string[] = [];
  const limited: string[] = [];
  const failed: unknown[] = [];
  const step = (name: string, isAway: boolean) => {
    done.push(name);
    if (isAway) throw fault ?? new AuthError('unavailable');
  };
  const limitAttempt = makeLimitAttempts({
    slots: {
      reserve: async (counter, allowance) => {
        step(`reserve ${counter}`, away === 'reserve');
        return slots.reserve(counter, allowance);
      },
      release: async (counter, slot) => {
        step(`release ${counter}`, away === 'release');
        return slots.release(counter, slot);
      },
    },
    hash: (text) => `#${text.replaceAll(' ', '-')}`,
    auditLimit: (_counter, { limit }) => limited.push(limit),
    auditFailure: (event, { heldSlot, network }) => failed.push([event, heldSlot, network]),
  });
  const limitGuess = makeGuessingLimits({
    limitAttempt,
    account,
    network,
    auditHash: (name) => `hash of ${name}`,
  });
  const attempt = (guess: Partial<Guess>, answer: (earlier: number) => Promise<string>) =>
    limitGuess(
      { name: 'ada', account: null, origin: STRANGER, from: NO_REQUEST, failure, ...guess },
      (isKnown, earlier) => {
        done.push(isKnown ? 'check of a known device' : 'check');
        return answer(earlier);
      },
    );
  return {
    done,
    limited,
    failed,
    pass: (ms: number) => (now += ms),
    attempt,
    right: (guess: Partial<Guess> = {}) => attempt(guess, () => Promise.resolve('in')),
    wrong: (guess: Partial<Guess> = {}) =>
      attempt(guess, () => Promise.reject(new AuthError('invalid_credentials', { reason: 'password' }))),
  };
}

const from = (origin: Partial<GuessOrigin>): Partial<Guess> => ({
  account: ADA,
  origin: { ...STRANGER, ...origin },
});

test('slots are taken before the password check, and returned if the password was right', async (t) => {
  const { done, right } = limits();
  t.equal(await right(), 'in');
  const [network, account] = ['network:#network-192.0.2.0/24', 'account:#account-ada'];
  t.strictSame(done, [
    `reserve ${network}`,
    `reserve ${account}`,
    'check',
    `release ${network}`,
    `release ${account}`,
  ]);
  for (let i = 0; i < 5; i++) t.equal(await right(), 'in');
});

test('wrong passwords are counted, and none is checked beyond the limit', async (t) => {
  const { done, limited, pass, wrong, right } = limits({ network: null });
  for (let i = 0; i < 2; i++) await t.rejects(wrong(), { code: 'invalid_credentials' });
  pass(1500);
  done.length = 0;
  for (const refused of [right(), wrong()]) {
    await t.rejects(refused, { code: 'rate_limited', retryAfter: 59 });
  }
  t.notOk(done.includes('check'));
  t.strictSame(limited, ['account', 'account']);
  t.equal(await right({ name: 'bob' }), 'in', 'each name has its own slots');
  pass(58_499);
  await t.rejects(right(), { code: 'rate_limited', retryAfter: 1 });
  pass(1);
  t.equal(await right(), 'in');
});

test('a check hears how many tries at the name were wrong lately', async (t) => {
  const { attempt, pass, right, wrong } = limits({ account: { count: 3, seconds: 60 }, network: null });
  const earlier = (guess: Partial<Guess> = {}) => attempt(guess, (count) => Promise.resolve(String(count)));
  t.equal(await earlier(), '0');
  for (let i = 0; i < 2; i++) await t.rejects(wrong(), { code: 'invalid_credentials' });
  t.equal(await right(), 'in');
  t.equal(await earlier(), '2', 'right ones do not count');
  t.equal(await earlier({ name: 'bob' }), '0');
  pass(60_000);
  t.equal(await earlier(), '0');
  t.equal(await limits({ account: null }).attempt({}, (count) => Promise.resolve(String(count))), '0');
});

test('an untried password returns its slots, and a bug during the check does not', async (t) => {
  const { attempt, right } = limits();
  for (const error of [
    new AuthError('unavailable'),
    new AuthError('overloaded'),
    new AuthError('validation_failed'),
  ]) {
    for (let i = 0; i < 3; i++)
      await t.rejects(
        attempt({}, () => Promise.reject(error)),
        error,
      );
  }
  t.equal(await right(), 'in');
  const fault = () => Promise.reject(new TypeError('a fault'));
  for (let i = 0; i < 2; i++) await t.rejects(attempt({}, fault), { name: 'TypeError' });
  await t.rejects(right(), { code: 'rate_limited' });
});

test('while all slots are in use, one more try is refused with a retry after 1 s', async (t) => {
  const { attempt, right, wrong } = limits();
  const finish: ((answer: string) => void)[] = [];
  const checking = [1, 2].map(() =>
    attempt({}, () => new Promise<string>((resolve) => finish.push(resolve))),
  );
  // Both hold a slot before the third arrives.
  await new Promise((resolve) => setImmediate(resolve));
  await t.rejects(right(), { code: 'rate_limited', retryAfter: 1 });
  for (const end of finish) end('in');
  t.strictSame(await Promise.all(checking), ['in', 'in']);
  t.equal(await right(), 'in', 'both were right, and returned their slots');
  for (let i = 0; i < 2; i++) await t.rejects(wrong(), { code: 'invalid_credentials' });
  await t.rejects(right(), { code: 'rate_limited', retryAfter: 60 });
});

test('while one of two attempts is in flight, its slot may come back at once', async (t) => {
  const { attempt, right } = limits();
  const [first, second] = [deferred<string>(), deferred<string>()];
  const [wrong, other] = [first, second].map(({ promise }) => attempt({}, () => promise));
  first.reject(new AuthError('invalid_credentials', { reason: 'password' }));
  await t.rejects(Promise.resolve(wrong), { code: 'invalid_credentials' });
  await t.rejects(right(), { code: 'rate_limited', retryAfter: 1 });
  second.resolve('in');
  t.equal(await other, 'in');
  t.equal(await right(), 'in');
});

test('a refusal by one limit takes no slot of the other', async (t) => {
  const { limited, wrong, right } = limits({ network: { count: 3, seconds: 60 } });
  for (let i = 0; i < 2; i++) await t.rejects(wrong(), { code: 'invalid_credentials' });
  for (let i = 0; i < 5; i++) await t.rejects(wrong(), { code: 'rate_limited' });
  t.strictSame(new Set(limited), new Set(['account']));
  await t.rejects(wrong({ name: 'bob' }), { code: 'invalid_credentials' });
  for (let i = 0; i < 5; i++) await t.rejects(right({ name: 'carol' }), { code: 'rate_limited' });
  t.equal(limited.at(-1), 'network');
  const elsewhere = { origin: { ...STRANGER, network: '198.51.100.0/24' } };
  for (let i = 0; i < 2; i++)
    await t.rejects(wrong({ ...elsewhere, name: 'carol' }), { code: 'invalid_credentials' });
});

test('a known device has its own limit, independent of network and strangers', async (t) => {
  const known: Record<string, Partial<Guess>> = {
    'device:#device-1-client-work-ada': from({ fingerprints: ['work', 'x'] }),
    'device:#device-1-client-new-ada': from({ fingerprints: ['new', 'home'] }),
    'device:#device-1-session-5-ada': from({
      token: { userId: 1, tokenId: 5, type: 'refresh', withFactor: false },
    }),
    'device:#device-1-session-6-ada': from({
      token: { userId: 1, tokenId: 6, type: 'refresh', withFactor: false },
      fingerprints: ['home'],
    }),
    'device:#device-1-llt-ada': from({ token: { userId: 1, tokenId: 7, type: 'llt', withFactor: false } }),
  };
  const { done, limited, wrong, right } = limits();
  for (let i = 0; i < 2; i++) await t.rejects(wrong(from({})), { code: 'invalid_credentials' });
  await t.rejects(right(from({})), { code: 'rate_limited' });
  for (const [counter, guess] of Object.entries(known)) {
    done.length = 0;
    t.equal(await right(guess), 'in', counter);
    t.strictSame(done, [`reserve ${counter}`, 'check of a known device', `release ${counter}`]);
    for (let i = 0; i < 2; i++) await t.rejects(wrong(guess), { code: 'invalid_credentials' });
    await t.rejects(right(guess), { code: 'rate_limited' });
    t.equal(limited.at(-1), 'device');
    t.equal(await right({ ...guess, name: 'ada@example.com' }), 'in', 'the other name has its own slots');
  }
});

test('all long-lived tokens of an account count as one device: making them needs no password', async (t) => {
  const { wrong, right } = limits();
  const llt = (tokenId: number) => from({ token: { userId: 1, tokenId, type: 'llt', withFactor: false } });
  for (const tokenId of [5, 6]) await t.rejects(wrong(llt(tokenId)), { code: 'invalid_credentials' });
  await t.rejects(right(llt(7)), { code: 'rate_limited' });
});

test('every other caller is a stranger', async (t) => {
  const strangers: Partial<Guess>[] = [
    from({ fingerprints: [] }),
    from({ fingerprints: [''] }),
    from({ fingerprints: ['elsewhere'] }),
    from({ token: { userId: 2, tokenId: 5, type: 'refresh', withFactor: false } }),
    {
      ...from({ fingerprints: ['home'], token: { userId: 1, tokenId: 5, type: 'llt', withFactor: false } }),
      account: null,
    },
  ];
  for (const guess of strangers) {
    const { done, right } = limits({ network: null });
    await right(guess);
    t.equal(done[0], 'reserve account:#account-ada');
  }
});

test('each wrong guess is one event, and says whether it held a slot', async (t) => {
  const { failed, attempt, right, wrong } = limits({ network: null });
  const event = failure();
  await right();
  await t.rejects(wrong());
  await t.rejects(wrong({ takesNoSlot: true }));
  const nowhere = { ...STRANGER, network: null };
  await t.rejects(wrong({ name: null, origin: nowhere }));
  t.strictSame(failed, [
    [event, true, STRANGER.network],
    [event, false, STRANGER.network],
    [event, false, null],
  ]);
  failed.length = 0;
  for (const error of [
    new AuthError('overloaded'),
    new AuthError('invalid_login_token'),
    new TypeError('a fault'),
  ])
    await t.rejects(
      attempt({}, () => Promise.reject(error)),
      error,
    );
  await t.rejects(right(), { code: 'rate_limited' });
  t.strictSame(failed, [], 'nothing else is a wrong guess');
});

test('disabled limits and uncounted networks make no call', async (t) => {
  const off = limits({ account: null, network: null });
  for (const guess of [{}, from({ fingerprints: ['home'] })]) await off.right(guess);
  t.strictSame(off.done, ['check', 'check of a known device']);
  const { done, right } = limits({ account: null });
  await right({ origin: { ...STRANGER, network: null } });
  t.strictSame(done, ['check']);
});

test('if the store is down no password is checked, and a failed return of a slot changes no answer', async (t) => {
  const closed = limits({ away: 'reserve' });
  await t.rejects(closed.right(), { code: 'unavailable' });
  t.notOk(closed.done.includes('check'));

  t.equal(await limits({ away: 'release' }).right(), 'in');
  for (const fault of [new TypeError('a fault'), new AuthError('internal_error')])
    await t.rejects(limits({ away: 'release', fault }).right(), fault);
});
