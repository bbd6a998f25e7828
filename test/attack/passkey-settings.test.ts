import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { makeVerifier } from '../../packages/verifier/src/create-verifier.ts';
import type { Acr } from '../../src/domain/principal.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { aPasskey } from '../support/authenticator.ts';
import { anAccount, call, claimsOf, logIn, pairOf, refresh, signUp, type Pair } from '../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../support/factors.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { FACTOR_PASSWORD } from '../support/own-factors.ts';
import {
  aBrowser,
  addPasskey,
  asserted,
  confirmPasskey,
  created,
  enrolmentOptions,
  loginOptions,
  logInWithPasskey,
  ORIGIN,
  PASSKEYS,
  sendPasskey,
} from '../support/passkeys.ts';
import { refused } from '../support/problem.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

const OTHER = { rpId: 'example.org', origin: 'https://example.org' };
const CHANGED = { WEBAUTHN_RP_ID: OTHER.rpId, WEBAUTHN_ORIGINS: OTHER.origin };
const PASSWORD = FACTOR_PASSWORD.current_password;

/** An account whose only factor is a passkey, with a session from before it and one that it has opened. */
async function anOwner(target: TestApp) {
  const account = anAccount();
  const old = await signUp(target, account);
  const passkey = aPasskey({ origin: ORIGIN });
  const answer = passkey.enrol(await enrolmentOptions(target, old.access_token));
  const confirmed = await confirmPasskey(target, old.access_token, answer);
  const { id, recovery_codes: codes } = confirmed.json<{ id: number; recovery_codes: string[] }>();
  const proven = pairOf(await sendPasskey(target, passkey.logIn(await loginOptions(target))));
  return { username: account.username, old, proven, id, codes, passkey };
}

/** Whoever may change settings, or restores an old configuration, must not lessen what an account asks for. */
onAStore('passkeys whose settings are removed or changed', async (t, env) => {
  const keyFolder = testFolder(t);
  writeFileSync(join(keyFolder, '0001.pem'), KEYS.ES256());
  const shared = {
    ...env,
    SIGNING_KEYS_DIR: keyFolder,
    REFRESH_TOKEN_SECRET: aSecret(),
    KEY_PUBLISH_LEAD: '0',
  };
  const before = await buildTestApp(t, { env: { ...shared, ...PASSKEYS } });
  const { databaseUrl } = before;
  const off = await buildTestApp(t, { env: shared, databaseUrl });
  const changed = await buildTestApp(t, { env: { ...shared, ...CHANGED }, databaseUrl });

  for (const [name, target, status, code] of [
    ['removed', off, 403, 'factors_disabled'],
    ['changed', changed, 401, 'invalid_passkey'],
  ] as const) {
    const demanding = async (pair: Pair, acr: Acr) =>
      (await call(target, `GET /api/auth/verify?demand_acr=${acr}`, { token: pair.access_token })).statusCode;

    await t.test(`${name}: no session gets more, and none is ended`, async (t) => {
      const { old, proven, id } = await anOwner(before);
      const refreshed = pairOf(await refresh(target, proven.refresh_token));
      t.equal(await demanding(refreshed, 'phr'), 200);
      const kept = pairOf(await refresh(target, old.refresh_token));
      t.equal(await demanding(kept, 'mfa'), 401);
      const token = kept.access_token;
      for (const [line, payload] of [
        ['POST /api/user/password', { ...FACTOR_PASSWORD, new_password: 'of a thief, and long' }],
        [`POST /api/user/factors/${id}/removal`, FACTOR_PASSWORD],
        ['POST /api/user/factors/recovery-codes', FACTOR_PASSWORD],
      ] as const)
        refused(t, await call(target, line, { token, payload }), 403, 'login_too_old');
      const listed = await call(target, 'GET /api/user/factors', { token });
      t.match(listed.json(), { factors: [{ id, type: 'passkey' }], recovery_codes_left: 10 });
    });

    await t.test(`${name}: the password opens nothing alone`, async (t) => {
      const { username, passkey, codes, old } = await anOwner(before);
      const attempt = async () => {
        const answer = await call(target, 'POST /api/auth', { payload: { username, password: PASSWORD } });
        refused(t, answer, 401, 'second_factor_required');
        return answer.json<{ login_token: string; methods: string[] }>();
      };
      const { login_token, methods } = await attempt();
      t.strictSame(methods, ['recovery_code']);
      const asked = await loginOptions(before);
      // Its own key, but for another RP ID than it was enrolled for.
      for (const oddities of [{}, OTHER])
        refused(t, await sendPasskey(target, passkey.logIn(asked, oddities)), status, code);
      const [recovery_code = ''] = codes;
      const opened = pairOf(await secondStep(target, { login_token, recovery_code }));
      t.match(claimsOf(opened.access_token), { acr: 'mfa' });
      await sql(databaseUrl, 'DELETE FROM recovery_codes WHERE user_id = $1', [old.user.id]);
      t.strictSame((await attempt()).methods, [], 'with nothing left, nothing is enough');
      t.equal((await sendPasskey(before, passkey.logIn(asked))).statusCode, 200, 'set again, it is good');
    });
  }

  await t.test('the owner adds a passkey for the new one beside the old one', async (t) => {
    const { username, codes, passkey } = await anOwner(before);
    const login_token = await firstStep(changed, username);
    const recovery_code = codes[0] ?? '';
    const { access_token: token } = pairOf(await secondStep(changed, { login_token, recovery_code }));
    const options = await enrolmentOptions(changed, token);
    t.strictSame(options.excludeCredentials, [], 'the browser would not find the old one');
    const browser = aBrowser();
    const answer = created(browser, options, OTHER.origin);
    t.equal((await confirmPasskey(changed, token, answer)).statusCode, 200);
    const logIn = async (target: TestApp) =>
      sendPasskey(target, asserted(browser, await loginOptions(changed), OTHER.origin));
    t.match(claimsOf(pairOf(await logIn(changed)).access_token), { acr: 'phr' });
    refused(t, await logIn(before), 401, 'invalid_passkey');
    t.equal((await sendPasskey(before, passkey.logIn(await loginOptions(before)))).statusCode, 200);
  });
});

/** How a user logs in, and what of it meets a demand. */
const LOGINS: Record<string, (target: TestApp) => Promise<Pair>> = {
  'a password': async (target) => logIn(target, (await signUp(target)).user.username),
  'a code': async (target) => {
    const pair = await signUp(target);
    return logInWithFactor(target, pair.user.username, await aFactor(target, pair));
  },
  'a recovery code': async (target) => {
    const pair = await signUp(target);
    const { recoveryCodes } = await aFactor(target, pair);
    const login_token = await firstStep(target, pair.user.username);
    return pairOf(await secondStep(target, { login_token, recovery_code: recoveryCodes[0] ?? '' }));
  },
  'a passkey': async (target) => {
    const { browser } = await addPasskey(target, (await signUp(target)).access_token);
    return logInWithPasskey(target, browser);
  },
};
const MEETS: [demand: Acr | null, logins: string[]][] = [
  [null, ['a password', 'a code', 'a recovery code', 'a passkey']],
  ['mfa', ['a code', 'a recovery code', 'a passkey']],
  ['phr', ['a passkey']],
];

onAStore('each demand is met by its logins alone, here and at a verifier', async (t, env) => {
  const issuer = 'https://id.example.com';
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS, ISSUER: issuer } });
  target.composition.start();
  const url = await target.app.listen({ host: '127.0.0.1', port: 0 });
  const { serviceId: id, secret } = await aRegisteredService(target.databaseUrl, 'shop', [
    'introspect',
    'revocations',
  ]);
  const verifier = makeVerifier({ issuer, url, audience: 'latchkey', client: { id, secret } }, SYSTEM_CLOCK);
  t.teardown(() => verifier.close());
  await verifier.ready();

  for (const [name, open] of Object.entries(LOGINS))
    await t.test(name, async (t) => {
      let pair = await open(target);
      for (const state of ['opened', 'refreshed']) {
        const { access_token: token } = pair;
        for (const [acr, logins] of MEETS) {
          const isMet = logins.includes(name);
          const query = acr === null ? '' : `?demand_acr=${acr}`;
          const answer = await call(target, `GET /api/auth/verify${query}`, { token });
          t.equal(answer.statusCode, isMet ? 200 : 401, `${state}, for ${acr}`);
          const verified = verifier.verify(token, acr === null ? {} : { acr });
          if (isMet) await t.resolves(verified, `${state}, for ${acr}`);
          else
            await t.rejects(verified, { code: 'insufficient_user_authentication' }, `${state}, for ${acr}`);
        }
        pair = pairOf(await refresh(target, pair.refresh_token));
      }
    });
});
