import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeCodeLimits } from '../../../src/domain/factors/code-limits.ts';
import { makeBudget } from '../../../src/domain/limits/budget.ts';
import {
  byAccount,
  byName,
  byNetwork,
  byRenewed,
  type Counted,
  type LimitBy,
} from '../../../src/domain/limits/counter-keys.ts';
import { makeLimitAttempts } from '../../../src/domain/limits/limit-attempts.ts';
import { makeGuessingLimits } from '../../../src/domain/passwords/guessing-limits.ts';
import type { SlotLimit } from '../../../src/domain/refusal-reasons.ts';

const HOUR = { count: 2, seconds: 3600 };
const DAY = { count: 2, seconds: 86_400 };
const NETWORK = '192.0.2.0/24';

/** The counters of 1.0.0 whose slots an attempt takes, and those that are newer. A fleet of both counts together. */
const KEYS: Record<SlotLimit, string> = {
  network: 'network 192.0.2.0/24',
  account: 'account ada',
  device: 'device 7 client home ada',
  factor: 'factor 7 4',
  factor_device: 'factor_device 7 session 5 4',
  factor_total: 'factor_total 7',
  factor_setup: 'factor_setup 3',
  factor_setup_total: 'factor_setup_total 7',
  signup_network: 'signup_network 192.0.2.0/24',
  reset_network: 'reset_network 192.0.2.0/24',
  reset_account: 'reset_account 7',
  llt_budget: 'llt_budget 7',
  llt_network: 'llt_network 192.0.2.0/24',
  profile_budget: 'profile_budget 7',
  passkey_budget: 'passkey_budget 7',
};

test('every counter has the key that it had, so that both versions of a fleet count together', async (t) => {
  const reserved = new Set<string>();
  const limitAttempt = makeLimitAttempts({
    slots: {
      reserve: (counter) => {
        reserved.add(counter);
        return Promise.resolve({ slot: 'x', earlier: 0 });
      },
      release: () => Promise.resolve(),
    },
    hash: (text) => `#${text}`,
    auditLimit: () => undefined,
    auditFailure: () => undefined,
  });
  const done = () => Promise.resolve();
  const ofUser = (limit: LimitBy<'account'>) => ({ user: { limit, allowance: HOUR } });
  const ofNetwork = (limit: LimitBy<'network'>) => ({ network: { limit, allowance: HOUR } });
  for (const limits of [
    ofUser('llt_budget'),
    ofUser('profile_budget'),
    ofUser('passkey_budget'),
    ofUser('reset_account'),
    ofNetwork('llt_network'),
    ofNetwork('signup_network'),
    ofNetwork('reset_network'),
  ])
    await makeBudget(limitAttempt, limits)({ userId: 7, network: NETWORK }, NO_REQUEST, done);

  const origin = { fingerprints: ['home'], token: null, network: NETWORK };
  const known = { userId: 7, passwordVersion: 4, knownCallers: ['home'] };
  const auditHash = (name: string) => name;
  const limitGuess = makeGuessingLimits({ limitAttempt, account: HOUR, network: HOUR, auditHash });
  const failure = () => ({ event: 'password.reset_failed' }) as const;
  for (const account of [null, known])
    await limitGuess({ name: 'ada', account, origin, from: NO_REQUEST, failure }, done);
  const limitCode = makeCodeLimits(limitAttempt, DAY);
  const token = { userId: 7, tokenId: 5, type: 'refresh', withFactor: true } as const;
  const stranger = { ...origin, fingerprints: ['elsewhere'] };
  for (const from of [stranger, { ...stranger, token }])
    await limitCode({ account: known, origin: from, from: NO_REQUEST }, done);
  const setUp = byRenewed('factor_setup', '3', 7, DAY);
  await limitAttempt({ counters: [setUp], from: NO_REQUEST, counts: () => true, failure: null }, done);

  const expected = Object.entries(KEYS).map(([limit, text]) => `${limit}:#${text}`);
  t.strictSame([...reserved].sort(), expected.sort());
});

test('what a caller renews counts beside its account, in the same window and five times as often', (t) => {
  const subject = { userId: 7 };
  t.strictSame(byRenewed('factor_setup', '3', 7, DAY), [
    { limit: 'factor_setup', key: '3', allowance: DAY, subject },
    { limit: 'factor_setup_total', key: '7', allowance: { count: 10, seconds: 86_400 }, subject },
  ]);
  t.match(byRenewed('factor', '7 4', 7, null), [{ allowance: null }, { allowance: null }]);
  t.end();
});

test('no attempt compiles that counts by what its caller renews alone, or beside another root', (t) => {
  const [own, total] = byRenewed('factor_setup', '3', 7, DAY);
  const hourly = byAccount('factor_setup_total', 7, HOUR);
  const subject = { userId: 7 };
  const wrong: Counted[] = [
    // @ts-expect-error: a key that counter-keys.ts did not make
    { limit: 'factor_setup', key: '3', allowance: DAY, subject },
    // @ts-expect-error: without its root
    own,
    // @ts-expect-error: a root with a shorter window
    [own, hourly],
    // @ts-expect-error: another root
    [own, byNetwork('network', NETWORK, DAY)],
    // @ts-expect-error: a root's limit for what a caller renews
    { ...own, limit: 'factor_setup_total' },
    // @ts-expect-error: an account's key for a limit that counts by set-ups
    byAccount('factor_setup', 7, DAY),
    // @ts-expect-error: a root for what stands alone
    byRenewed('profile_budget', '3', 7, DAY),
    // @ts-expect-error: an address is no key of an attempt
    byNetwork('login', NETWORK, HOUR),
  ];
  const right: Counted[] = [total, byName('ada', { allowance: HOUR, subject })];
  t.equal(wrong.length + right.length, 10);
  t.end();
});
