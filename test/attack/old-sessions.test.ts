import { buildTestApp, type TestApp } from '../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
} from '../support/client.ts';
import { aFactor, firstStep, logInWithFactor } from '../support/factors.ts';
import { addApp, confirmApp, FACTOR_PASSWORD, setUpApp } from '../support/own-factors.ts';
import {
  aBrowser,
  addPasskey,
  confirmPasskey,
  created,
  enrolmentOptions,
  logInWithPasskey,
  PASSKEYS,
} from '../support/passkeys.ts';
import { refused } from '../support/problem.ts';
import { aReset, redeem } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';
import { recordOf } from './target.ts';

/**
 * The threat: somebody has stolen an access token, or knows the password, or both, of an account with a second factor.
 * Without the factor, nothing may be changed by which the account is opened.
 */
type Requests = [line: string, body: object][];

/** What changes factors. */
const proven = (factorId: number): Requests => [
  ['POST /api/user/factors/totp', FACTOR_PASSWORD],
  ['POST /api/user/factors/passkey', FACTOR_PASSWORD],
  ['POST /api/user/factors/recovery-codes', FACTOR_PASSWORD],
  [`POST /api/user/factors/${factorId}/removal`, FACTOR_PASSWORD],
];

/** What else opens the account later. */
const OPENING: Requests = [
  ['POST /api/user/password', { ...FACTOR_PASSWORD, new_password: 'of a thief, and long' }],
  ['PATCH /api/user', { ...FACTOR_PASSWORD, username: 'a-thief' }],
  ['PATCH /api/user', { ...FACTOR_PASSWORD, email: 'thief@example.com', name: 'Ada' }],
  ['POST /api/user/email', { verification_token: 'lkv_mailed-to-a-thief' }],
  ['POST /api/auth/llt', { device: 'of a thief' }],
  ['POST /api/user/tokens', { name: 'of a thief', scopes: ['orders:read'] }],
];

/** An account with sessions from before its factor. */
async function aVictim(target: TestApp) {
  const account = anAccount();
  const old = await signUp(target, account);
  const other = await logIn(target, account.username);
  const { longlived_token: llt } = await createLongLived(target, old.access_token);
  const app = await setUpApp(target, other.access_token);
  const factor = await aFactor(target, old);
  return { account, old, other, llt, app, factor };
}

onAStore('an account with a second factor', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS } });

  await t.test('a stolen session from before the factor, and the password', async (t) => {
    const { old, other, app, factor, llt } = await aVictim(target);
    const refreshed = pairOf(await refresh(target, old.refresh_token));
    const before = await recordOf(target);
    for (const { access_token: token } of [refreshed, other]) {
      t.notOk('amr' in claimsOf(token));
      for (const [line, payload] of [...proven(factor.id), ...OPENING])
        refused(t, await call(target, line, { token, payload }), 403, 'login_too_old');
    }
    refused(t, await confirmApp(target, other.access_token, app.code()), 403, 'login_too_old');
    for (const [line, payload] of [...proven(factor.id), ...OPENING])
      refused(t, await call(target, line, { token: llt, payload }), 403, 'token_not_allowed');
    t.strictSame(await recordOf(target), before, 'nothing was changed');

    const token = refreshed.access_token;
    const { sid } = claimsOf(other.access_token);
    for (const [line, payload] of [
      ['PATCH /api/user', { name: 'Countess' }],
      ['GET /api/user/factors', undefined],
      ['GET /api/user/tokens', undefined],
      [`DELETE /api/auth/${String(sid)}`, undefined],
      ['DELETE /api/user/tokens', undefined],
    ] as const)
      t.equal((await call(target, line, { token, payload })).statusCode, 200, `${line} stays allowed`);
  });

  await t.test(
    'a stolen session from before the passkey, or an old one of it, and the password',
    async (t) => {
      const account = anAccount();
      const old = await signUp(target, account);
      const other = await logIn(target, account.username);
      const { longlived_token: llt } = await createLongLived(target, old.access_token);
      const begun = created(aBrowser(), await enrolmentOptions(target, other.access_token));
      const { id, browser } = await addPasskey(target, old.access_token);
      const { access_token: opened } = await logInWithPasskey(target, browser);
      const before = await recordOf(target);
      for (const [line, payload] of [...proven(id), ...OPENING]) {
        for (const { access_token: token } of [old, other])
          refused(t, await call(target, line, { token, payload }), 403, 'login_too_old');
        refused(t, await call(target, line, { token: llt, payload }), 403, 'token_not_allowed');
      }
      // The enrolment of the owner has replaced it.
      refused(t, await confirmPasskey(target, other.access_token, begun), 401, 'invalid_passkey');
      refused(t, await confirmPasskey(target, llt, begun), 403, 'token_not_allowed');
      const { clock } = target.composition.app;
      const now = clock.now.bind(clock);
      clock.now = () => now() + 601_000;
      for (const [line, payload] of proven(id))
        refused(t, await call(target, line, { token: opened, payload }), 403, 'login_too_old');
      clock.now = now;
      t.strictSame(await recordOf(target), before, 'nothing was changed');
    },
  );

  await t.test('a stolen access token of the session in which the owner adds a passkey', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const options = await enrolmentOptions(target, token);
    const before = await recordOf(target);
    // The challenge was shown to the owner alone.
    const own = created(aBrowser(), { ...options, challenge: 'dGhlIGNoYWxsZW5nZSBvZiBhIHRoaWVm' });
    refused(t, await confirmPasskey(target, token, own), 401, 'invalid_passkey');
    t.strictSame(await recordOf(target), before);
    t.equal((await confirmPasskey(target, token, created(aBrowser(), options))).statusCode, 200);
  });

  await t.test('a session that had begun a passkey before the account got a factor', async (t) => {
    const pair = await signUp(target);
    const { access_token: token } = pair;
    const begun = created(aBrowser(), await enrolmentOptions(target, token));
    await aFactor(target, pair);
    refused(t, await confirmPasskey(target, token, begun), 403, 'login_too_old');
  });

  await t.test('a stolen session that was opened with an earlier factor, and the password', async (t) => {
    const { account, old, factor } = await aVictim(target);
    const { access_token: token } = await logInWithFactor(target, account.username, factor);
    const removal = `POST /api/user/factors/${factor.id}/removal`;
    t.equal((await call(target, removal, { token, payload: FACTOR_PASSWORD })).statusCode, 200);
    const { id } = await aFactor(target, old);
    // Later than clocks may differ.
    await sql(
      target.databaseUrl,
      `UPDATE users SET factor_since = now() + interval '6 seconds' WHERE username = $1`,
      [account.username],
    );
    const before = await recordOf(target);
    for (const [line, payload] of [...proven(id), ...OPENING])
      refused(t, await call(target, line, { token, payload }), 403, 'login_too_old');
    t.strictSame(await recordOf(target), before);
  });

  await t.test('a stolen session of a moment ago, without the password', async (t) => {
    const { account, factor } = await aVictim(target);
    const { access_token: token } = await logInWithFactor(target, account.username, factor);
    const before = await recordOf(target);
    for (const [line, payload] of [...proven(factor.id), ...OPENING].filter(
      ([, body]) => 'current_password' in body,
    )) {
      const guessed = { ...payload, current_password: 'a guess' };
      refused(t, await call(target, line, { token, payload: guessed }), 401, 'invalid_credentials');
    }
    t.strictSame(await recordOf(target), before);
  });

  await t.test('the password alone', async (t) => {
    const { account, old, factor } = await aVictim(target);
    const before = await recordOf(target);
    const token = await firstStep(target, account.username);
    for (const [line, payload] of [
      ...proven(factor.id),
      ...OPENING,
      ['GET /api/user/factors', undefined] as const,
    ])
      refused(t, await call(target, line, { token, payload }), 401, 'invalid_token');
    t.strictSame(await recordOf(target), before);
    const reset = await aReset(target.databaseUrl, old.user.id);
    t.equal((await redeem(target, reset, 'of a thief, and long')).statusCode, 200);
    await firstStep(target, account.username, { password: 'of a thief, and long' });
  });

  await t.test(
    'a stolen session of an account without a factor adds none without the password',
    async (t) => {
      const { access_token: token } = await signUp(target);
      const guessed = { current_password: 'a guess' };
      refused(
        t,
        await call(target, 'POST /api/user/factors/totp', { token, payload: guessed }),
        401,
        'invalid_credentials',
      );
      refused(t, await confirmApp(target, token, '123456'), 401, 'invalid_second_factor');
      const passkey = { token, payload: guessed };
      const begun = await call(target, 'POST /api/user/factors/passkey', passkey);
      refused(t, begun, 401, 'invalid_credentials');
      t.ok((await addApp(target, token)).recovery_codes, 'the owner does');
    },
  );
});
