import type { Test } from 'tap';
import { buildTestApp, type TestApp } from '../support/app.ts';
import {
  aPasskey,
  FLAGS,
  rsaKey,
  type EnrolmentOddities,
  type LoginOddities,
} from '../support/authenticator.ts';
import { encodeCbor } from '../support/cbor.ts';
import { pairOf, signUp } from '../support/client.ts';
import {
  confirmPasskey,
  enrolmentOptions,
  loginOptions,
  ORIGIN,
  PASSKEYS,
  sendPasskey,
} from '../support/passkeys.ts';
import { refused } from '../support/problem.ts';
import { sql } from '../support/sql.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

const { up, uv, bs } = FLAGS;

/** What an attacker's authenticator, browser or page may sign at either ceremony. */
const SIGNED: Record<string, EnrolmentOddities & LoginOddities> = {
  'no presence': { flags: uv },
  'no verification': { flags: up },
  'no flag': { flags: 0 },
  'a backup of what cannot be backed up': { flags: up | uv | bs },
  'another RP ID': { rpId: 'example.com.evil.example' },
  'a page of another site': { origin: 'https://app.example.com.evil.example' },
  'a page of the RP ID that is not listed': { origin: 'https://example.com' },
  'the other spelling of the page': { origin: `${ORIGIN}/` },
  'a frame in another site': { clientMembers: { crossOrigin: true } },
  'a frame, by its top page alone': { clientMembers: { topOrigin: ORIGIN } },
  'a payment': { type: 'payment.get' },
};

/** An account with a software passkey. */
async function anOwner(target: TestApp) {
  const passkey = aPasskey({ origin: ORIGIN });
  const { access_token: token, user } = await signUp(target);
  const options = await enrolmentOptions(target, token);
  const confirmed = await confirmPasskey(target, token, passkey.enrol(options));
  if (confirmed.statusCode !== 200) throw new Error(confirmed.body);
  return { passkey, handle: options.user.id, userId: user.id };
}

/** As an authenticator encodes it. */
function rsaKeyOf(exponent: Uint8Array): Buffer {
  const { n = '' } = aPasskey({ algorithm: 'RS256' }).privateKey.export({ format: 'jwk' });
  return encodeCbor(new Map(rsaKey(Buffer.from(n, 'base64url'), exponent)));
}

async function sessionsOf(t: Test, target: TestApp, userId: number, expected: number, what: string) {
  const live = 'SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL';
  t.equal((await sql(target.databaseUrl, live, [userId])).length, expected, what);
}

onAStore('answers that are signed as an attacker would', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS } });
  const owner = await anOwner(target);
  const thief = await anOwner(target);

  await t.test('at a login', async (t) => {
    const attempt = async (
      what: string,
      odd: LoginOddities,
      passkey = owner.passkey,
      code: 'invalid_passkey' | 'passkey_unknown' = 'invalid_passkey',
    ) => {
      const answer = passkey.logIn(await loginOptions(target), odd);
      refused(t, await sendPasskey(target, answer), 401, code);
      t.pass(what);
    };
    for (const [what, odd] of Object.entries(SIGNED)) await attempt(what, odd);
    await attempt('an enrolment', { type: 'webauthn.create' });
    await attempt('the handle of another', { userHandle: owner.handle }, thief.passkey);
    await attempt('the credential of another', { credentialId: owner.passkey.credentialId }, thief.passkey);
    await attempt(
      'both of another',
      { credentialId: owner.passkey.credentialId, userHandle: owner.handle },
      thief.passkey,
    );
    await attempt('no handle', { userHandle: null });
    await attempt('a longer handle', { userHandle: `${owner.handle}AAAA` });
    await attempt('a handle of nobody', {
      userHandle: Buffer.alloc(32).toString('base64url'),
      credentialId: Buffer.alloc(16),
    });
    await attempt(
      'a credential of nobody',
      { credentialId: Buffer.alloc(16) },
      owner.passkey,
      'passkey_unknown',
    );
    await attempt('an id of 1,024 bytes', { credentialId: Buffer.alloc(1024) });
    await sessionsOf(t, target, owner.userId, 1, 'none was opened');
    await sessionsOf(t, target, thief.userId, 1, 'nor the thief’s own');
    pairOf(await sendPasskey(target, owner.passkey.logIn(await loginOptions(target))));
  });

  await t.test('at an enrolment', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const other = await enrolmentOptions(target, (await signUp(target)).access_token);
    const options = await enrolmentOptions(target, token);
    const attempt = async (what: string, odd: EnrolmentOddities) => {
      const answer = aPasskey({ origin: ORIGIN }).enrol(options, odd);
      refused(t, await confirmPasskey(target, token, answer), 401, 'invalid_passkey');
      t.pass(what);
    };
    for (const [what, odd] of Object.entries(SIGNED)) await attempt(what, odd);
    await attempt('a login', { type: 'webauthn.get' });
    await attempt('the challenge of another account', { challenge: other.challenge });
    await attempt('the credential of another', { credentialId: owner.passkey.credentialId });
    await attempt('an empty id', { credentialId: Buffer.of() });
    await attempt('an id of 1,024 bytes', { credentialId: Buffer.alloc(1024) });
    await attempt('an RSA key with another exponent', { coseKey: rsaKeyOf(Buffer.of(3)) });
    const id = Buffer.alloc(16, 1).toString('base64url');
    const renamed = { ...aPasskey({ origin: ORIGIN }).enrol(options), id, rawId: id };
    refused(t, await confirmPasskey(target, token, renamed), 401, 'invalid_passkey');
    const factors = await sql(
      target.databaseUrl,
      'SELECT id FROM factors WHERE user_id = $1 AND confirmed_at IS NOT NULL',
      [user.id],
    );
    t.strictSame(factors, []);
    const usual = rsaKeyOf(Buffer.of(1, 0, 1));
    const honest = aPasskey({ origin: ORIGIN }).enrol(options, { coseKey: usual });
    const confirmed = await confirmPasskey(target, token, honest);
    t.equal(confirmed.statusCode, 200, confirmed.body);
  });
});
