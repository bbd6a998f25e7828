import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeProven } from '../../../src/domain/factors/proven.ts';
import { hashRecoveryCode } from '../../../src/domain/factors/recovery-codes.ts';
import { makeOwnPasskeys } from '../../../src/domain/passkeys/own-passkeys.ts';
import type { NewPasskey, VerifyAnswers } from '../../../src/domain/passkeys/ports.ts';
import { aCaller } from '../../support/caller.ts';
import { aClock } from '../../support/clock.ts';
import { makeSteps } from '../../support/steps.ts';
import { aUser } from '../../support/token.ts';

const user = aUser();
const REQUEST = {
  currentPassword: 'difference engine',
  turn: ['192.0.2.0/24', '192.0.2.1'] as const,
  from: NO_REQUEST,
  origin: { fingerprints: [], token: null, network: null },
};
const ANSWER = { id: '', rawId: '', type: '', response: { clientDataJSON: '', attestationObject: '' } };
const PASSKEY: NewPasskey = {
  credentialId: Buffer.from('id'),
  publicKey: Buffer.from('key'),
  transports: [],
  counter: 0,
  backupEligible: true,
  backedUp: true,
};

/** Which the account has from an earlier enrolment. */
const HANDLE = Buffer.alloc(32, 7);

interface Given {
  isOn?: boolean;
  hasBegun?: boolean;
  /** What its answer says; null if it is refused. */
  passkey?: NewPasskey | null;
  /** What the store says of the effect. */
  confirmed?: { isFirst: boolean } | null;
}

/** Ada, who has begun to enrol a passkey with session 11. */
function aService({
  isOn = true,
  hasBegun = true,
  passkey = PASSKEY,
  confirmed = { isFirst: true },
}: Given = {}) {
  const clock = aClock();
  const createdAt = clock.now();
  const { done, step } = makeSteps();
  const events: AuditEvent[] = [];
  const hashes: Uint8Array[] = [];
  const account = { user, passwordHash: new Uint8Array(1), enabledAt: 0, knownCallers: [] };
  const verifyAnswers: VerifyAnswers = {
    rpId: 'example.com',
    read: () => null,
    checkLogin: () => Promise.resolve(null),
    checkEnrolment: (_, challenge) => step('check', Buffer.from(challenge)).then(() => passkey),
  };
  const confirmPassword = () =>
    step('password').then(() => ({ ...account, passwordVersion: 4, email: 'ada@example.com' }));
  const passkeys = makeOwnPasskeys({
    passkeys: {
      setUp: async (_, { handle, challenge, createdAt: at, passwordVersion, limit }) => {
        await step('set up', handle.length, challenge.length, at - createdAt, passwordVersion, limit);
        return { handle: HANDLE, existing: [{ credentialId: Buffer.from('id'), transports: ['usb'] }] };
      },
      findUnconfirmed: () =>
        Promise.resolve(hasBegun ? { factorId: 3, challenge: Buffer.from('challenge'), createdAt } : null),
      confirm: async (_, { factorId, name, at, codeHashes }) => {
        await step('confirm', factorId, name, at - createdAt);
        hashes.push(...codeHashes);
        return confirmed;
      },
    },
    verifyAnswers: isOn ? verifyAnswers : null,
    proven: makeProven({ confirmPassword, loginMaxAge: 600, clock }),
    issuer: 'Example',
    randomBytes: (size) => (size === 32 ? Buffer.alloc(size, 5) : randomBytes(size)),
    clock,
    audit: (event) => events.push(event),
  });
  const caller = aCaller(user, 11);
  const confirm = (name = 'Phone') => passkeys.confirm(caller, { name, answer: ANSWER }, NO_REQUEST);
  return { clock, done, events, hashes, passkeys, caller, confirm };
}

test('an enrolment begins after the password, with a challenge and a handle of 256 bits', async (t) => {
  const { passkeys, caller, done } = aService();
  t.strictSame(await passkeys.setUp(caller, REQUEST), {
    rp: { id: 'example.com', name: 'Example' },
    user: { id: HANDLE.toString('base64url'), name: user.username, displayName: user.name },
    challenge: Buffer.alloc(32, 5).toString('base64url'),
    pubKeyCredParams: [
      { type: 'public-key', alg: -7 },
      { type: 'public-key', alg: -8 },
      { type: 'public-key', alg: -257 },
    ],
    timeout: 300_000,
    excludeCredentials: [{ type: 'public-key', id: 'aWQ', transports: ['usb'] }],
    authenticatorSelection: {
      residentKey: 'required',
      requireResidentKey: true,
      userVerification: 'required',
    },
    attestation: 'none',
    extensions: { credProps: true },
  });
  t.strictSame(done, ['password', 'set up 32 32 0 4 10']);
});

test('its challenge is good for five minutes and the tolerance', async (t) => {
  const { clock, confirm, done } = aService();
  clock.pass(304_999);
  await confirm();
  t.strictSame(done, ['check challenge', 'confirm 3 Phone 304999']);
  clock.pass(1);
  await t.rejects(confirm(), { code: 'invalid_passkey' });
  t.equal(done.length, 2, 'nothing is checked then');
});

test('the first factor of an account brings recovery codes, and each one is audited', async (t) => {
  for (const isFirst of [true, false]) {
    const { confirm, events, hashes } = aService({ confirmed: { isFirst } });
    const { id, recoveryCodes } = await confirm();
    t.equal(id, 3);
    const stored = recoveryCodes?.map((code) => hashRecoveryCode(code));
    if (isFirst) t.strictSame(stored, hashes);
    else t.equal(recoveryCodes, null);
    t.equal(hashes.length, 10);
    t.strictSame(events, [{ event: 'factor.added', userId: user.id, by: 11, factorId: 3, type: 'passkey' }]);
  }
});

test('nothing is confirmed that was not begun, or not verified, or was replaced meanwhile', async (t) => {
  const cases: [Given, string[]][] = [
    [{ hasBegun: false }, []],
    [{ passkey: null }, ['check challenge']],
    [{ confirmed: null }, ['check challenge', 'confirm 3 Phone 0']],
  ];
  for (const [given, steps] of cases) {
    const { confirm, done, events } = aService(given);
    await t.rejects(confirm(), { code: 'invalid_passkey' });
    t.strictSame([done, events], [steps, []]);
  }
  const unnamed = aService().confirm(' ');
  await t.rejects(unnamed, { code: 'validation_failed', errors: [{ path: '/name' }] });
});

test('with passkeys off, or by a clock that is not trusted, nothing is done', async (t) => {
  const off = aService({ isOn: false });
  await t.rejects(off.passkeys.setUp(off.caller, REQUEST), { code: 'factors_disabled' });
  await t.rejects(off.confirm(), { code: 'factors_disabled' });
  const wrong = aService();
  wrong.clock.distrust();
  await t.rejects(wrong.passkeys.setUp(wrong.caller, REQUEST), { code: 'unavailable' });
  await t.rejects(wrong.confirm(), { code: 'unavailable' });
  const llt = { ...aCaller(user, 11), type: 'llt' as const };
  await t.rejects(aService().passkeys.setUp(llt, REQUEST), { code: 'token_not_allowed' });
  t.strictSame([...off.done, ...wrong.done], []);
});
