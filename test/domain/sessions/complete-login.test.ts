import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { PasswordProof } from '../../../src/domain/factors/login-token.ts';
import type { SecondStepAccount } from '../../../src/domain/factors/ports.ts';
import { hashRecoveryCode } from '../../../src/domain/factors/recovery-codes.ts';
import { codeOf } from '../../../src/domain/factors/totp.ts';
import { makeCompleteLogin } from '../../../src/domain/sessions/complete-login.ts';
import { aClock } from '../../support/clock.ts';
import { openLimits } from '../../support/open-limits.ts';
import { aUser } from '../../support/token.ts';

const SECRET = Buffer.from('12345678901234567890');
const CODE = 'MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB';
const ORIGIN = { fingerprints: ['home'], token: null, network: null };
const PASSWORD = { userId: 7, passwordVersion: 4, enabledAt: 5 };
const SEALED = { keyId: 'a key', secret: SECRET };

interface Given {
  account?: Partial<SecondStepAccount> | null;
  /** What the login token says besides. */
  password?: Partial<PasswordProof>;
  /** What opening the session ends with. */
  fault?: Error | null;
}

/** Ada’s second step, a minute after the first. */
function aService({ account = {}, password = {}, fault }: Given = {}) {
  const clock = aClock();
  const issuedAt = clock.now();
  clock.pass(60_000);
  const events: AuditEvent[] = [];
  const done: unknown[] = [];
  const limits = openLimits(events);
  const step = Math.floor(clock.now() / 30_000);
  const totp = { id: 3, sealed: SEALED, lastStep: step - 1 };
  const factors = { totp, passkeys: { all: 0, usable: 0 }, codesLeft: 2 };
  const known = { ...PASSWORD, disabled: false, ...factors, knownCallers: ['home'], ...account };
  const hasCode = (codeHash?: Uint8Array) => codeHash?.toString() === hashRecoveryCode(CODE)?.toString();
  const completeLogin = makeCompleteLogin({
    factors: {
      findAccount: (userId, codeHash) =>
        Promise.resolve(userId === 7 && account ? { hasCode: hasCode(codeHash), ...known } : null),
    },
    loginTokens: { read: (token) => (token === 'ours' ? { ...PASSWORD, issuedAt, ...password } : null) },
    secrets: {
      open: (userId, sealed) => {
        if (userId !== 7 || sealed !== SEALED) throw new AuthError('unavailable');
        return SECRET;
      },
    },
    openSession: (login) => {
      done.push(login);
      if (fault) return Promise.reject(fault);
      const grant = { tokenId: 11, generation: 1, createdAt: clock.now(), acr: 'mfa' as const };
      return Promise.resolve(fault === null ? null : { user: aUser(), ...grant });
    },
    limitCode: (guess, check) => {
      done.push(['code', guess]);
      return limits.limitCode(guess, check);
    },
    limitGuess: (guess, check) => {
      done.push(['recovery code', guess]);
      return limits.limitGuess(guess, check);
    },
    clock,
    audit: (event) => events.push(event),
  });
  return {
    clock,
    step,
    known,
    events,
    done,
    attempt: (code: string, more: Partial<Parameters<typeof completeLogin>[0]> = {}) =>
      completeLogin({
        loginToken: 'ours',
        given: { method: /^\d/.test(code) ? 'totp' : 'recovery_code', code },
        device: ' Phone ',
        caller: 'home',
        origin: ORIGIN,
        from: NO_REQUEST,
        ...more,
      }),
  };
}

test('a code opens the session with the step that it uses up, within the limit of codes', async (t) => {
  for (const later of [0, 1]) {
    const { step, known, events, done, attempt } = aService();
    t.match(await attempt(codeOf(SECRET, step + later)), { tokenId: 11 });
    t.match(done, [
      ['code', { account: known, origin: ORIGIN, from: NO_REQUEST }],
      {
        password: PASSWORD,
        factor: { type: 'totp', factorId: 3, step: step + later },
        device: 'Phone',
        caller: 'home',
        from: NO_REQUEST,
      },
    ]);
    t.strictSame(events, []);
  }
  const { step, attempt } = aService({ account: { codesLeft: 0 } });
  t.match(await attempt(codeOf(SECRET, step)), { tokenId: 11 }, 'without recovery codes');
});

test('a recovery code counts for the network alone, and its use is on record', async (t) => {
  const { events, done, attempt } = aService();
  t.match(await attempt(CODE), { tokenId: 11 });
  t.match(done, [
    ['recovery code', { name: null, account: null, origin: ORIGIN, from: NO_REQUEST }],
    { factor: { type: 'recovery_code', codeHash: hashRecoveryCode(CODE) } },
  ]);
  t.strictSame(events, [{ event: 'recovery_code.used', userId: 7, tokenId: 11 }]);
});

test('a wrong code and a used one open nothing', async (t) => {
  const wrong: [code: string, account?: Partial<SecondStepAccount>][] = [
    [codeOf(SECRET, 1)],
    [codeOf(SECRET, aService().step - 1)],
    [codeOf(SECRET, aService().step), { totp: null }],
  ];
  for (const [code, account] of wrong) {
    const { events, done, attempt } = aService(account && { account });
    await t.rejects(attempt(code), { code: 'invalid_second_factor' });
    t.equal(done.length, 1, 'tried within a limit, and no session');
    t.match(events, [{ event: 'factor.refused', userId: 7, method: 'totp' }]);
  }
  const unknown = aService();
  await t.rejects(unknown.attempt(CODE.replace('M', 'N')), { code: 'invalid_second_factor' });
  t.match(unknown.done, [['recovery code', {}]], 'one that the account lacks enters no lane');
  const late = aService({ fault: new AuthError('invalid_second_factor') });
  await t.rejects(late.attempt(CODE), { code: 'invalid_second_factor' });
  t.strictSame(late.events, [{ event: 'factor.refused', userId: 7, method: 'recovery_code' }]);
});

test('what has not the form of a code is no guess: the token is not read, and nothing counts', async (t) => {
  const { events, done, attempt } = aService();
  const refusals: [method: 'totp' | 'recovery_code', text: string, path: string, message: RegExp][] = [
    ['totp', '12345', '/code', /^must be the 6 digits that the app shows$/],
    ['totp', CODE, '/code', /6 digits/],
    ['recovery_code', '123456', '/recovery_code', /^must be a recovery code, of 24 letters and digits$/],
    ['recovery_code', '', '/recovery_code', /24 letters/],
  ];
  for (const [method, code, path, message] of refusals)
    await t.rejects(
      attempt(code, { given: { method, code }, loginToken: 'other' }),
      { code: 'validation_failed', errors: [{ path, code: 'format', message }] },
      code,
    );
  await t.rejects(
    attempt('1', { device: '' }),
    { code: 'validation_failed', errors: [{ path: '/device' }, { path: '/code' }] },
    'with what is wrong besides',
  );
  t.strictSame([done, events], [[], []]);
});

test('a code is read as it is typed', async (t) => {
  const { step, done, attempt } = aService();
  const typed = codeOf(SECRET, step).replace(/^(...)/, '$1 ');
  t.match(await attempt(typed), { tokenId: 11 });
  t.match(done[1], { factor: { type: 'totp', step } });
});

test('a login token is void after what voids the password', async (t) => {
  const voided: Given[] = [
    { account: null },
    { account: { disabled: true } },
    { account: { totp: null, codesLeft: 0 } },
    { password: { passwordVersion: 3 } },
    { password: { enabledAt: 0 } },
    { password: { userId: 8 } },
  ];
  for (const given of voided) {
    const { events, done, attempt } = aService(given);
    await t.rejects(attempt(CODE), { code: 'invalid_login_token' });
    t.strictSame([done, events], [[], []], 'before any limit');
  }
  const { attempt } = aService();
  await t.rejects(attempt(CODE, { loginToken: 'other' }), { code: 'invalid_login_token' });
  await t.rejects(attempt(CODE, { device: '' }), {
    code: 'validation_failed',
    errors: [{ path: '/device' }],
  });
  for (const fault of [null, new AuthError('invalid_credentials', { reason: 'password' })]) {
    const late = aService({ fault });
    await t.rejects(late.attempt(CODE), { code: 'invalid_login_token' }, 'also under the lock');
    t.strictSame(late.events, []);
  }
  for (const fault of [new AuthError('unavailable'), new TypeError('a fault')])
    await t.rejects(aService({ fault }).attempt(CODE), fault);
});

test('a login token is good for five minutes, with five seconds for clocks that differ', async (t) => {
  for (const [passed, isGood] of [
    [244_999, true],
    [245_000, false],
    [-65_000, true],
    [-65_001, false],
  ] as const) {
    const { clock, attempt } = aService();
    clock.pass(passed);
    if (isGood) t.match(await attempt(CODE), { tokenId: 11 });
    else await t.rejects(attempt(CODE), { code: 'invalid_login_token' });
    clock.pass(-passed);
    clock.distrust();
    clock.pass(passed);
    if (!isGood) await t.rejects(attempt(CODE), { code: 'unavailable' });
  }
});

test('by a clock that is not trusted only recovery codes count', async (t) => {
  const { clock, step, events, attempt } = aService();
  clock.distrust();
  await t.rejects(attempt(codeOf(SECRET, step)), { code: 'unavailable' });
  t.match(await attempt(CODE), { tokenId: 11 });
  t.equal(events.length, 1);
});
