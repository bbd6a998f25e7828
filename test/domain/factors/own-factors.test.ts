import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { makeOwnFactors } from '../../../src/domain/factors/own-factors.ts';
import { makeProven } from '../../../src/domain/factors/proven.ts';
import { codeOf, SECRET_BYTES } from '../../../src/domain/factors/totp.ts';
import { makeSecretBox, parseFactorKeys } from '../../../src/infra/crypto/factor-keys.ts';
import { aCaller } from '../../support/caller.ts';
import { aClock } from '../../support/clock.ts';
import { makeSteps } from '../../support/steps.ts';
import { aUser } from '../../support/token.ts';

const user = aUser();
const aKey = () => parseFactorKeys(randomBytes(32).toString('base64url'));
const REQUEST = {
  currentPassword: 'difference engine',
  turn: ['192.0.2.0/24', '192.0.2.1'] as const,
  from: NO_REQUEST,
  origin: { fingerprints: [], token: null, network: null },
};

/** Ada, who has set an app up with session 11 under the first key. */
function aService(loaded = aKey(), sealing = loaded) {
  const clock = aClock();
  const { done, step } = makeSteps();
  const secret = randomBytes(SECRET_BYTES);
  const account = {
    user,
    passwordHash: new Uint8Array(1),
    passwordVersion: 4,
    enabledAt: 0,
    knownCallers: [],
  };
  const factors = makeOwnFactors({
    factors: {
      list: () => Promise.resolve(null),
      setUp: async ({ openedSince }, { passwordVersion }) => {
        await step('set up', openedSince - clock.now(), passwordVersion);
        return 3;
      },
      findUnconfirmed: () =>
        Promise.resolve({ id: 3, sealed: makeSecretBox(sealing).seal(user.id, secret), lastStep: 0 }),
      confirm: async (_, { step: used, at }) => {
        await step('confirm', used - Math.floor(at / 30_000));
        return { isFirst: true };
      },
      replaceCodes: () => step('replace').then(() => true),
      remove: () => step('remove').then(() => true),
    },
    secrets: makeSecretBox(loaded),
    proven: makeProven({
      confirmPassword: () => step('password').then(() => ({ ...account, email: 'ada@example.com' })),
      loginMaxAge: 600,
      clock,
    }),
    limitAttempt: (_, check) => check(0),
    allowance: null,
    issuer: 'auth.example.com',
    randomBytes,
    clock,
    audit: () => undefined,
  });
  const caller = aCaller(user, 11);
  const code = () => codeOf(secret, Math.floor(clock.now() / 30_000));
  const confirm = () => factors.confirmTotp(caller, code(), { from: NO_REQUEST, network: null });
  return { clock, done, factors, caller, confirm };
}

test('the change takes the version of the password and the age of the login to the store', async (t) => {
  const { done, factors, caller, confirm } = aService();
  await factors.setUpTotp(caller, REQUEST);
  t.match(await confirm(), { id: 3 });
  t.strictSame(done, ['password', 'set up -600000 4', 'confirm 0']);
});

test('by a clock that is not trusted nothing is changed', async (t) => {
  const { clock, done, factors, caller, confirm } = aService();
  clock.distrust();
  const refused = { code: 'unavailable' };
  await t.rejects(factors.setUpTotp(caller, REQUEST), refused);
  await t.rejects(confirm(), refused);
  await t.rejects(factors.replaceRecoveryCodes(caller, REQUEST), refused);
  await t.rejects(factors.remove(caller, 3, REQUEST), refused);
  t.strictSame(done, []);
});

test('without a key no app can be added, and factors can still be removed', async (t) => {
  const { done, factors, caller } = aService([]);
  await t.rejects(factors.setUpTotp(caller, REQUEST), { code: 'factors_disabled' });
  t.strictSame(done, [], 'the password is not asked for');
  await factors.remove(caller, 3, REQUEST);
});

test('a secret whose key is gone confirms nothing', async (t) => {
  const { done, confirm } = aService(aKey(), aKey());
  await t.rejects(confirm(), { code: 'unavailable' });
  t.strictSame(done, []);
});
