import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeProven } from '../../../src/domain/factors/proven.ts';
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

interface Given {
  isOn?: boolean;
  hasBegun?: boolean;
  /** What its answer says; null if it is refused. */
  passkey?: NewPasskey | null;
}

/** Ada, who has begun to enrol a passkey with session 11. */
function aService({ isOn = true, hasBegun = true, passkey = PASSKEY }: Given = {}) {
  const clock = aClock();
  const createdAt = clock.now();
  const { done, step } = makeSteps();
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
      setUp: async (_, { handle, challenge, passwordVersion, limit }) => {
        await step('set up', handle.length, challenge.length, passwordVersion, limit);
        return { handle, existing: [] };
      },
      findUnconfirmed: () =>
        Promise.resolve(hasBegun ? { factorId: 3, challenge: Buffer.from('challenge'), createdAt } : null),
      confirm: async (_, { name, at }) => {
        await step('confirm', name, at - createdAt);
        return { isFirst: true };
      },
    },
    verifyAnswers: isOn ? verifyAnswers : null,
    proven: makeProven({ confirmPassword, loginMaxAge: 600, clock }),
    issuer: 'Example',
    randomBytes,
    clock,
    audit: () => undefined,
  });
  const caller = aCaller(user, 11);
  const confirm = (name = 'Phone') => passkeys.confirm(caller, { name, answer: ANSWER }, NO_REQUEST);
  return { clock, done, passkeys, caller, confirm };
}

test('an enrolment begins after the password, with a challenge and a handle of 256 bits', async (t) => {
  const { passkeys, caller, done } = aService();
  const options = await passkeys.setUp(caller, REQUEST);
  t.match(options, { rp: { id: 'example.com', name: 'Example' }, user: { name: user.username } });
  t.strictSame(done, ['password', 'set up 32 32 4 10']);
});

test('its challenge is good for five minutes and the tolerance', async (t) => {
  const { clock, confirm, done } = aService();
  clock.pass(304_999);
  const { id, recoveryCodes } = await confirm();
  t.match({ id, codes: recoveryCodes?.length }, { id: 3, codes: 10 });
  t.strictSame(done, ['check challenge', 'confirm Phone 304999']);
  clock.pass(1);
  await t.rejects(confirm(), { code: 'invalid_passkey' });
  t.equal(done.length, 2, 'nothing is checked then');
});

test('nothing is confirmed that was not begun, or not verified', async (t) => {
  for (const given of [{ hasBegun: false }, { passkey: null }]) {
    const { confirm, done } = aService(given);
    await t.rejects(confirm(), { code: 'invalid_passkey' });
    t.notOk(done.some((each) => each.startsWith('confirm')));
  }
  await t.rejects(aService().confirm(' '), { code: 'validation_failed' });
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
