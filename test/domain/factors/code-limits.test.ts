import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeCodeLimits, type CodeGuess } from '../../../src/domain/factors/code-limits.ts';
import { makeLimitAttempts } from '../../../src/domain/limits/limit-attempts.ts';
import type { Allowance } from '../../../src/domain/limits/ports.ts';
import { makeMemoryAttemptSlots } from '../../../src/infra/memory/attempt-slots.ts';

const STRANGER = { fingerprints: ['elsewhere'], token: null, network: null };
const ADA = { userId: 1, passwordVersion: 4, knownCallers: ['home'] };

function limits(allowance: Allowance | null = { count: 2, seconds: 60 }) {
  const slots = makeMemoryAttemptSlots(() => 0);
  const reserved: string[] = [];
  const limited: unknown[] = [];
  const limitAttempt = makeLimitAttempts({
    slots: {
      reserve: (counter, given) => {
        reserved.push(counter);
        return slots.reserve(counter, given);
      },
      release: (counter, slot) => slots.release(counter, slot),
    },
    hash: (text) => `#${text}`,
    auditLimit: (_counter, event) => limited.push(event),
    auditFailure: () => undefined,
  });
  const limitCode = makeCodeLimits(limitAttempt, allowance);
  const guess = (more: Partial<CodeGuess>) => ({ account: ADA, origin: STRANGER, from: NO_REQUEST, ...more });
  const fail = (error: Error) => () => Promise.reject(error);
  return {
    reserved,
    limited,
    right: (more: Partial<CodeGuess> = {}) => limitCode(guess(more), () => Promise.resolve('in')),
    wrong: (more: Partial<CodeGuess> = {}) =>
      limitCode(guess(more), fail(new AuthError('invalid_second_factor'))),
    fails: (error: Error) => limitCode(guess({}), fail(error)),
  };
}

const from = (origin: Partial<CodeGuess['origin']>): Partial<CodeGuess> => ({
  origin: { ...STRANGER, ...origin },
});
const token = (more: object) => ({
  userId: 1,
  tokenId: 5,
  type: 'refresh' as const,
  withFactor: true,
  ...more,
});

test('wrong codes use the allowance up, from wherever they come, and right ones do not', async (t) => {
  const { limited, right, wrong } = limits();
  for (let i = 0; i < 5; i++) t.equal(await right(), 'in');
  await t.rejects(wrong(), { code: 'invalid_second_factor' });
  await t.rejects(wrong(from({ fingerprints: ['another'] })), { code: 'invalid_second_factor' });
  await t.rejects(right(), { code: 'rate_limited', reason: 'factor' });
  t.match(limited, [{ limit: 'factor', userId: 1 }]);
  t.equal(await right({ account: { ...ADA, passwordVersion: 5 } }), 'in', 'a changed password restores it');
  t.equal(await right({ account: { ...ADA, userId: 2 } }), 'in', 'and each account has its own');
});

test('what was not compared is no wrong code, and a bug is one', async (t) => {
  for (const code of ['unavailable', 'invalid_login_token'] as const) {
    const { right, fails } = limits();
    for (let i = 0; i < 3; i++) await t.rejects(fails(new AuthError(code)), { code });
    t.equal(await right(), 'in');
  }
  const { right, fails } = limits();
  for (let i = 0; i < 2; i++) await t.rejects(fails(new TypeError('a fault')), { message: 'a fault' });
  await t.rejects(right(), { code: 'rate_limited' });
});

test('only a device that has passed both steps has an allowance of its own', async (t) => {
  const known: [Partial<CodeGuess>, key: string][] = [
    [from({ fingerprints: ['new', 'home'] }), '1 client new 4'],
    [from({ token: token({}) }), '1 session 5 4'],
    [from({ token: token({ tokenId: 6 }), fingerprints: ['home'] }), '1 session 6 4'],
    [from({ token: token({ withFactor: false }), fingerprints: ['home'] }), '1 client home 4'],
  ];
  const strangers = [
    from({}),
    from({ fingerprints: [''] }),
    from({ token: token({ withFactor: false }) }),
    from({ token: token({ type: 'llt', withFactor: false }) }),
    from({ token: token({ type: 'llt' }) }),
    from({ token: token({ userId: 2 }) }),
  ];
  const { reserved, right, wrong } = limits();
  for (let i = 0; i < 2; i++) await t.rejects(wrong(), { code: 'invalid_second_factor' });
  for (const stranger of strangers) {
    reserved.length = 0;
    await t.rejects(right(stranger), { code: 'rate_limited', reason: 'factor' });
    t.strictSame(reserved, ['factor:#factor 1 4']);
  }
  for (const [guess, key] of known) {
    reserved.length = 0;
    t.equal(await right(guess), 'in');
    t.strictSame(reserved, [`factor_device:#factor_device ${key}`, 'factor_total:#factor_total 1']);
    for (let i = 0; i < 2; i++) await t.rejects(wrong(guess), { code: 'invalid_second_factor' });
    await t.rejects(right(guess), { code: 'rate_limited', reason: 'factor_device' });
  }
});

test('all wrong codes of an account count together, five times as many', async (t) => {
  const { limited, right, wrong } = limits();
  const renewed = (passwordVersion: number) => ({ account: { ...ADA, passwordVersion } });
  const device = (tokenId: number) => from({ token: token({ tokenId }) });
  for (const each of [renewed(1), renewed(2), renewed(3), device(5), device(6)]) {
    t.equal(await right(each), 'in');
    for (let i = 0; i < 2; i++) await t.rejects(wrong(each), { code: 'invalid_second_factor' });
  }
  for (const each of [renewed(7), device(7)])
    await t.rejects(right(each), { code: 'rate_limited', reason: 'factor_total' });
  t.match(limited, [{ limit: 'factor_total', userId: 1, windowSeconds: 60 }, {}]);
  t.equal(await right({ account: { ...ADA, userId: 2 } }), 'in');
});

test('0 turns the limit off', async (t) => {
  const { reserved, wrong } = limits(null);
  for (let i = 0; i < 5; i++) await t.rejects(wrong(), { code: 'invalid_second_factor' });
  t.strictSame(reserved, []);
});
