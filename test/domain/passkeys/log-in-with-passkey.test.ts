import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeLogInWithPasskey } from '../../../src/domain/passkeys/log-in-with-passkey.ts';
import type {
  FoundPasskey,
  PasskeyRecord,
  PresentedPasskey,
  VerifyAnswers,
} from '../../../src/domain/passkeys/ports.ts';
import type { AuthenticatorState } from '../../../src/domain/tokens/ports.ts';
import { aClock } from '../../support/clock.ts';
import { makeSteps } from '../../support/steps.ts';
import { aUser } from '../../support/token.ts';

const HANDLE = Buffer.alloc(32, 7);
const NONCE = Buffer.alloc(24, 9);
const STATE: AuthenticatorState = { counter: 5, backupEligible: true, backedUp: true };
const RECORD: PasskeyRecord = {
  factorId: 3,
  userId: 7,
  handle: HANDLE,
  rpId: 'example.com',
  publicKey: Buffer.from('key'),
  ...STATE,
  counter: 4,
  passwordVersion: 2,
  disabled: false,
  enabledAt: 0,
};

const FROM = {
  device: 'Phone',
  caller: 'home',
  origin: { fingerprints: ['home'], token: null, network: null },
  from: NO_REQUEST,
};

interface Given {
  presented?: Partial<PresentedPasskey> | null;
  challenge?: 'ours' | 'foreign';
  found?: Partial<PasskeyRecord> | { isOrphan: boolean };
  isSpent?: true;
  shown?: AuthenticatorState | null;
  /** What opening the session ends with. */
  fault?: Error | null;
  isOff?: true;
}

/** Ada’s login, with a challenge that is issued now. */
function aService(given: Given = {}) {
  const { presented = {}, challenge = 'ours', found = {}, isSpent, shown = STATE, fault, isOff } = given;
  const clock = aClock();
  const issuedAt = clock.now();
  const { done, step } = makeSteps();
  const events: AuditEvent[] = [];
  const logins: unknown[] = [];
  const answer = { id: '', rawId: '', type: '', response: {} } as unknown as PresentedPasskey['answer'];
  const good: PresentedPasskey = {
    answer,
    credentialId: Buffer.from('id'),
    handle: HANDLE,
    challenge: 'text',
    isOurs: true,
  };
  const verifyAnswers: VerifyAnswers = {
    rpId: 'example.com',
    read: () => presented && { ...good, ...presented },
    checkLogin: async () => {
      await step('signature');
      return shown;
    },
    checkEnrolment: () => Promise.resolve(null),
  };
  const lookUp = (): FoundPasskey =>
    'isOrphan' in found
      ? { passkey: null, isOrphan: found.isOrphan }
      : { passkey: { ...RECORD, ...found }, isSpent: isSpent ?? false };
  const useCase = makeLogInWithPasskey({
    passkeys: { find: () => step('record').then(lookUp) },
    verifyAnswers: isOff ? null : verifyAnswers,
    loginChallenges: {
      issue: (at) => `issued ${at - issuedAt}`,
      read: (text) => {
        done.push('challenge');
        return text === 'text' && challenge === 'ours' ? { issuedAt, nonce: NONCE } : null;
      },
    },
    openSession: async (login) => {
      await step('open');
      logins.push(login);
      if (fault) throw fault;
      const grant = { tokenId: 11, generation: 1, createdAt: clock.now(), acr: 'phr' as const };
      return fault === null ? null : { user: aUser(), ...grant };
    },
    budget: (holder, _from, task) => {
      done.push(`budget of ${holder.userId}`);
      return task();
    },
    clock,
    audit: (event) => events.push(event),
    observe: { passkeyRefused: () => done.push('refused') },
  });
  const attempt = (device = FROM.device) => useCase.logIn({ answer, ...FROM, device });
  return { clock, done, events, logins, attempt, options: () => useCase.options() };
}

test('each check comes in its order, and the session opens with what was looked up', async (t) => {
  const { attempt, done, events, logins } = aService();
  t.match(await attempt(), { tokenId: 11, acr: 'phr' });
  t.strictSame(done, ['challenge', 'record', 'signature', 'budget of 7', 'open']);
  const factor = { type: 'passkey', factorId: 3, challenge: NONCE, shown: STATE };
  t.strictSame(logins, [{ password: { userId: 7, passwordVersion: 2, enabledAt: 0 }, factor, ...FROM }]);
  t.strictSame(events, []);
});

test('what is wrong ends it before the next check', async (t) => {
  const cases: [Given, string[]][] = [
    [{ presented: null }, []],
    [{ challenge: 'foreign' }, ['challenge']],
    [{ presented: { isOurs: false } }, ['challenge']],
    [{ found: { isOrphan: false } }, ['challenge', 'record']],
    [{ found: { rpId: 'example.org' } }, ['challenge', 'record']],
    [{ isSpent: true }, ['challenge', 'record']],
    [{ shown: null }, ['challenge', 'record', 'signature']],
    [{ presented: { handle: null } }, ['challenge', 'record', 'signature']],
    [{ presented: { handle: Buffer.alloc(32, 8) } }, ['challenge', 'record', 'signature']],
    [{ found: { disabled: true } }, ['challenge', 'record', 'signature']],
  ];
  for (const [given, steps] of cases) {
    const { attempt, done } = aService(given);
    await t.rejects(attempt(), { code: 'invalid_passkey' }, JSON.stringify(given));
    t.strictSame(done, [...steps, 'refused']);
  }
  const orphan = aService({ found: { isOrphan: true } });
  await t.rejects(orphan.attempt(), { code: 'passkey_unknown' });
  t.strictSame(orphan.done, ['challenge', 'record', 'refused']);
});

test('a challenge is good for five minutes and the tolerance, by a clock that is trusted', async (t) => {
  const { clock, attempt } = aService();
  clock.pass(304_999);
  await attempt();
  clock.pass(1);
  await t.rejects(attempt(), { code: 'invalid_passkey' });
  clock.distrust();
  await t.rejects(attempt(), { code: 'unavailable' });
  const early = aService();
  early.clock.pass(-5000);
  await early.attempt();
  early.clock.pass(-1);
  await t.rejects(early.attempt(), { code: 'invalid_passkey' }, 'from the future');
});

test('an account that changes meanwhile voids it, and an outage does not', async (t) => {
  const changed = new AuthError('invalid_credentials', { reason: 'password' });
  for (const fault of [null, changed, new AuthError('invalid_passkey')]) {
    const { attempt, done } = aService({ fault });
    await t.rejects(attempt(), { code: 'invalid_passkey' });
    t.equal(done.at(-1), 'refused');
  }
  const { attempt, done } = aService({ fault: new AuthError('unavailable') });
  await t.rejects(attempt(), { code: 'unavailable' });
  t.not(done.at(-1), 'refused', 'which is no refused passkey');
});

test('a counter that does not grow and another eligibility are audited', async (t) => {
  const cases: [AuthenticatorState, Partial<PasskeyRecord>, string[]][] = [
    [STATE, { counter: 5 }, ['passkey.counter_behind']],
    [STATE, { counter: 6 }, ['passkey.counter_behind']],
    [{ ...STATE, counter: 0 }, { counter: 6 }, ['passkey.counter_behind']],
    [{ ...STATE, counter: 0 }, { counter: 0 }, []],
    [{ ...STATE, counter: 1 }, { counter: 0 }, []],
    [STATE, { backupEligible: false }, ['passkey.eligibility_changed']],
    [STATE, { backedUp: false }, []],
  ];
  for (const [shown, found, expected] of cases) {
    const { attempt, events } = aService({ shown, found });
    await attempt();
    t.strictSame(
      events,
      expected.map((event) => ({ event, userId: 7, tokenId: 11, factorId: 3 })),
    );
  }
});

test('without passkeys there is neither', async (t) => {
  const { attempt, options } = aService({ isOff: true });
  t.throws(() => options(), { code: 'factors_disabled' });
  await t.rejects(attempt(), { code: 'factors_disabled' });
  t.strictSame(aService().options(), {
    challenge: 'issued 0',
    timeout: 300_000,
    rpId: 'example.com',
    userVerification: 'required',
  });
  const unnamed = aService().attempt('');
  await t.rejects(unnamed, { code: 'validation_failed', errors: [{ path: '/device' }] });
});
