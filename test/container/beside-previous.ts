import type { Test } from 'tap';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { makeVerifier } from '../../packages/verifier/src/create-verifier.ts';
import type { LoginOptions } from '../../src/domain/passkeys/log-in-with-passkey.ts';
import type { EnrolmentOptions } from '../../src/domain/passkeys/own-passkeys.ts';
import { anAccount, bearer, claimsOf, type Pair } from '../support/client.ts';
import { anApp } from '../support/factors.ts';
import {
  createLimitedOver,
  createLongLivedOver,
  logInOver,
  refreshOver,
  signUpOver,
  verifyOver,
} from '../support/over-http.ts';
import type { Mail } from '../support/mails.ts';
import { aBrowser, asserted, created, type Browser } from '../support/passkeys.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { eventually, until } from '../support/until.ts';

interface Versions {
  /** Addresses of a replica of the previous release, and of one of this release. */
  previous: string;
  next: string;
  databaseUrl: string;
  /** Runs `latchkey purge` of the previous release. */
  purge: () => Promise<void>;
}

const SCOPE = 'orders:read';

/** What the previous release makes of limited tokens and mailed tokens, of which it knows nothing. */
export async function besidePrevious(t: Test, { previous, next, databaseUrl, purge }: Versions) {
  const account = anAccount();
  const first = await signUpOver(next, account);
  const [ended, expired] = [
    await createLimitedOver(next, first.access_token, [SCOPE]),
    await createLimitedOver(next, first.access_token, [SCOPE]),
  ];
  const inScope = async ({ token }: { token: string }) =>
    (await ask(next, `GET /api/auth/scopes/${SCOPE}/verify`, bearer(token))).status;
  t.equal(await inScope(ended), 200);
  t.equal(await verifyOver(previous, ended.token), 401, 'the previous release knows no limited tokens');

  let pair = first;
  for (const url of [previous, next, previous]) {
    const refreshed = await refreshOver(url, pair.refresh_token);
    t.equal(refreshed.status, 200, 'nobody is signed out');
    pair = (await refreshed.json()) as Pair;
  }
  const owner = bearer(pair.access_token);
  const list = (await (await ask(previous, 'GET /api/user/tokens', owner)).json()) as {
    tokens: { id: number; type: string }[];
  };
  t.match(
    list.tokens.find(({ id }) => id === ended.id),
    { type: 'llt' },
  );
  t.equal((await ask(previous, `DELETE /api/auth/${ended.id}`, owner)).status, 200);
  t.equal(await inScope(ended), 401, 'the previous release ends it');
  t.equal(await inScope(expired), 200);
  await sql(databaseUrl, "UPDATE tokens SET expires_at = now() - interval '1 year' WHERE id = $1", [
    expired.id,
  ]);
  await purge();
  t.strictSame(await sql(databaseUrl, 'SELECT 1 FROM tokens WHERE id = $1', [expired.id]), []);

  const mailer = basic(await aRegisteredService(databaseUrl, 'mailer', ['mails']));
  await ask(next, 'POST /api/auth/password-reset-request', {}, { username: account.username });
  const mails: Mail[] = [];
  await eventually(30, async () => {
    const taken = await ask(next, 'POST /api/users/mails', mailer, {});
    if (taken.status === 200) mails.push(...((await taken.json()) as { mails: Mail[] }).mails);
    return mails.length > 0 ? null : `no mail: ${taken.status}`;
  });
  const passwords = { current_password: account.password, new_password: 'an analytical engine' };
  t.equal((await ask(previous, 'POST /api/user/password', owner, passwords)).status, 200);
  const redemption = { reset_token: mails[0]?.token, password: 'another analytical engine' };
  const redeemed = await ask(next, 'POST /api/auth/password-reset', {}, redemption);
  t.equal(redeemed.status, 401, 'a new password at the previous release voids the token of a mail');
}

/** What the previous release makes of accounts with a second factor, of which it knows nothing (docs/upgrading.md). */
export async function factorsBesidePrevious(t: Test, { previous, next, databaseUrl }: Versions) {
  const account = anAccount();
  const { access_token: first, user } = await signUpOver(next, account);
  const answer = <T>(asked: Promise<Response>, status?: number) => answerOf<T>(t, asked, status);
  const { username, password } = account;
  const proof = { current_password: password };
  const setUp = ask(next, 'POST /api/user/factors/totp', bearer(first), proof);
  const code = anApp((await answer<{ secret: string }>(setUp)).secret);
  await answer(ask(next, 'POST /api/user/factors/totp/confirm', bearer(first), { code: code() }));
  const step = await answer<{ login_token: string }>(logInOver(next, username, password), 401);
  const second = { login_token: step.login_token, code: code(1) };
  const withFactor = await answer<Pair>(ask(next, 'POST /api/auth/second-factor', {}, second));

  const demanded = async (url: string, { access_token: token }: Pair) =>
    (await ask(url, 'GET /api/auth/verify?demand_acr=mfa', bearer(token))).status;
  t.equal(await demanded(next, withFactor), 200);
  // The previous release logs in by the password alone.
  const without = await answer<Pair>(logInOver(previous, username, password));
  t.equal(await verifyOver(next, without.access_token), 200);
  t.equal(await demanded(next, without), 401);
  t.equal(await demanded(previous, without), 200, 'the previous release ignores demands');
  const passwords = { ...proof, new_password: 'an analytical engine' };
  const change = ask(next, 'POST /api/user/password', bearer(without.access_token), passwords);
  t.match(await answer(change, 403), { code: 'login_too_old' });

  const refreshed = await answer<Pair>(refreshOver(previous, withFactor.refresh_token));
  t.equal(await verifyOver(previous, refreshed.access_token), 200, 'nobody is signed out');
  t.equal(await demanded(next, refreshed), 401, 'the previous release drops the proof');
  const again = await answer<Pair>(refreshOver(next, refreshed.refresh_token));
  t.notOk('acr' in claimsOf(again.access_token), 'for good');

  const held = () =>
    sql(
      databaseUrl,
      `SELECT factor_since IS NOT NULL AS since, (SELECT count(*)::int FROM factors WHERE user_id = users.id) AS factors,
         (SELECT count(*)::int FROM recovery_codes WHERE user_id = users.id) AS codes FROM users WHERE id = $1`,
      [user.id],
    );
  t.strictSame(await held(), [{ since: true, factors: 1, codes: 10 }]);
  const writer = basic(await aRegisteredService(databaseUrl, 'accounts', ['users.write']));
  await answer(ask(previous, `DELETE /api/users/${user.id}`, writer));
  t.strictSame(await held(), [{ since: false, factors: 0, codes: 0 }], 'a deletion erases them');
}

/** An account with a passkey of this release, which has logged in with it. */
async function aPasskeyOwner(t: Test, next: string) {
  const account = anAccount();
  const { access_token: token, user } = await signUpOver(next, account);
  const browser = aBrowser();
  const proof = { current_password: account.password };
  const begin = ask(next, 'POST /api/user/factors/passkey', bearer(token), proof);
  const options = await answerOf<EnrolmentOptions>(t, begin);
  const body = { name: 'Phone', passkey: created(browser, options) };
  const confirm = ask(next, 'POST /api/user/factors/passkey/confirm', bearer(token), body);
  const { id, recovery_codes: codes } = await answerOf<{ id: number; recovery_codes: string[] }>(t, confirm);
  const pair = await answerOf<Pair>(t, sendPasskeyOver(next, await assertedOver(next, browser)));
  t.match(claimsOf(pair.access_token), { acr: 'phr' });
  return { ...account, user, proof, browser, id, codes, pair };
}

async function assertedOver(url: string, browser: Browser) {
  const response = await ask(url, 'POST /api/auth/passkey', {}, {});
  return asserted(browser, (await response.json()) as LoginOptions);
}

const sendPasskeyOver = (url: string, passkey: object) =>
  ask(url, 'POST /api/auth/second-factor', {}, { passkey });

async function demandedOver(url: string, acr: string, { access_token: token }: Pair): Promise<number> {
  return (await ask(url, `GET /api/auth/verify?demand_acr=${acr}`, bearer(token))).status;
}

/** What the account's owner has left. */
function passkeysHeld(databaseUrl: string, userId: number) {
  return sql(
    databaseUrl,
    `SELECT factor_since IS NOT NULL AS since, passkey_handle IS NOT NULL AS handle,
       (SELECT count(*)::int FROM passkeys JOIN factors ON id = factor_id WHERE user_id = users.id) AS passkeys,
       (SELECT count(*)::int FROM recovery_codes WHERE user_id = users.id) AS codes FROM users WHERE id = $1`,
    [userId],
  );
}

const NOTHING = { since: false, handle: false, passkeys: 0, codes: 0 };

/** What the previous release makes of accounts with a passkey, which it ignores as every factor. */
export async function passkeysBesidePrevious(t: Test, { previous, next, databaseUrl }: Versions) {
  const { username, password, user, browser, pair } = await aPasskeyOwner(t, next);
  t.equal((await ask(previous, 'POST /api/auth/passkey', {}, {})).status, 405);
  t.equal((await sendPasskeyOver(previous, await assertedOver(next, browser))).status, 405);
  const without = await answerOf<Pair>(t, logInOver(previous, username, password));
  t.equal(await demandedOver(next, 'mfa', without), 401);
  const refreshed = await answerOf<Pair>(t, refreshOver(previous, pair.refresh_token));
  t.equal(await verifyOver(next, refreshed.access_token), 200, 'nobody is signed out');
  t.equal(await demandedOver(next, 'mfa', refreshed), 401, 'the previous release drops the proof');
  const again = sendPasskeyOver(next, await assertedOver(next, browser));
  t.equal(await demandedOver(next, 'phr', await answerOf<Pair>(t, again)), 200);
  t.strictSame(await passkeysHeld(databaseUrl, user.id), [
    { since: true, handle: true, passkeys: 1, codes: 10 },
  ]);
  const writer = basic(await aRegisteredService(databaseUrl, 'erasure', ['users.write']));
  await answerOf(t, ask(previous, `DELETE /api/users/${user.id}`, writer));
  t.strictSame(await passkeysHeld(databaseUrl, user.id), [NOTHING], 'a deletion erases them');
}

/** What a release that has codes only makes of passkeys: factors whose proof it cannot take, and sessions with `mfa`. */
export async function passkeysBesideCodes(
  t: Test,
  { codes: release, next, databaseUrl }: Pick<Versions, 'next' | 'databaseUrl'> & { codes: string },
) {
  const { username, password, user, proof, browser, id, codes, pair } = await aPasskeyOwner(t, next);
  t.equal((await ask(release, 'POST /api/auth/passkey', {}, {})).status, 405);
  t.equal((await sendPasskeyOver(release, await assertedOver(next, browser))).status, 400);

  // Its sessions go on, with the proof that this release knows.
  t.equal(await demandedOver(release, 'mfa', pair), 200, 'it reads `phr` as `mfa`');
  const refreshed = await answerOf<Pair>(t, refreshOver(release, pair.refresh_token));
  const reissued = { acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] };
  t.match(claimsOf(refreshed.access_token), reissued);
  t.equal(await demandedOver(next, 'mfa', refreshed), 200);
  t.equal(await demandedOver(next, 'phr', refreshed), 401);
  const back = await answerOf<Pair>(t, refreshOver(next, refreshed.refresh_token));
  t.match(claimsOf(back.access_token), reissued, 'and stay so');

  // The password alone opens nothing, and recovery codes do.
  const asked = logInOver(release, username, password);
  const step = await answerOf<{ login_token: string; methods: string[] }>(t, asked, 401);
  t.strictSame(step.methods, ['recovery_code']);
  const second = { login_token: step.login_token, recovery_code: codes[0] };
  const opened = await answerOf<Pair>(t, ask(release, 'POST /api/auth/second-factor', {}, second));
  t.equal(await demandedOver(next, 'mfa', opened), 200);
  const owner = bearer(opened.access_token);
  const list = await answerOf<{ factors: object[] }>(t, ask(release, 'GET /api/user/factors', owner));
  t.match(list.factors, [{ id, type: 'passkey', name: 'Phone' }]);

  // The passkey is good all the while, and until that release removes it.
  await answerOf(t, sendPasskeyOver(next, await assertedOver(next, browser)));
  await answerOf(t, ask(release, `POST /api/user/factors/${id}/removal`, owner, proof));
  const unknown = sendPasskeyOver(next, await assertedOver(next, browser));
  t.match(await answerOf(t, unknown, 401), { code: 'passkey_unknown' });
  t.strictSame(await passkeysHeld(databaseUrl, user.id), [{ ...NOTHING, handle: true }]);
  await answerOf(t, logInOver(release, username, password));

  const other = await aPasskeyOwner(t, next);
  const writer = basic(await aRegisteredService(databaseUrl, 'erasure', ['users.write']));
  await answerOf(t, ask(release, `DELETE /api/users/${other.user.id}`, writer));
  t.strictSame(await passkeysHeld(databaseUrl, other.user.id), [NOTHING], 'a deletion erases them');
}

/** Whether the claim `email_verified` follows the record while the previous release rewrites what Redis holds of a user. */
export async function verifiedBesidePrevious(t: Test, { previous, next, databaseUrl }: Versions) {
  const account = anAccount();
  const pair = await signUpOver(next, account);
  const rights = ['introspect', 'users.write', 'users.reset'] as const;
  const service = basic(await aRegisteredService(databaseUrl, 'address book', rights));
  const said = async () => {
    const body = new URLSearchParams({ token: pair.access_token });
    const asked = await fetch(`${next}/api/auth/introspect`, { method: 'POST', headers: service, body });
    t.equal(asked.status, 200);
    return ((await asked.json()) as { email_verified?: true }).email_verified ?? false;
  };
  const change = async (url: string, changes: object) => {
    t.equal((await ask(url, `PATCH /api/users/${pair.user.id}`, service, changes)).status, 200);
  };
  const becomes = (expected: boolean) =>
    eventually(10, async () => ((await said()) === expected ? null : `not ${expected}`));
  const { email, username, password } = account;

  await change(next, { email, email_verified: true });
  t.equal(await said(), true);
  const other = (await (await logInOver(previous, username, password)).json()) as Pair;
  t.notOk('email_verified' in claimsOf(other.access_token), 'the previous release writes no such claim');
  t.equal(await said(), true, 'and takes none away');
  const refreshed = (await (await refreshOver(next, other.refresh_token)).json()) as Pair;
  t.equal(claimsOf(refreshed.access_token).email_verified, true);

  const moved = anAccount().email;
  await change(previous, { email: moved });
  await becomes(false);
  await change(previous, { email: moved, email_verified: true });
  await becomes(true);
  await change(previous, { email_verified: false });
  await becomes(false);
}

/** Whether a verifier that meets the previous release with its reports waits, and loses none. */
export async function usesBesidePrevious(t: Test, { previous, next, databaseUrl }: Versions) {
  const { access_token: access } = await signUpOver(next, anAccount());
  const { id, longlived_token: token } = await createLongLivedOver(next, access);
  const { serviceId, secret } = await aRegisteredService(databaseUrl, 'reader');
  const pause = 3000;
  const statuses: number[] = [];
  const verifier = makeVerifier(
    {
      issuer: 'https://auth.example.com',
      url: next,
      audience: 'latchkey',
      client: { id: serviceId, secret },
      // The balancer sends the first report to the previous release.
      fetch: async (to, init) => {
        const { pathname } = new URL(to instanceof Request ? to.url : to);
        const isReport = pathname === '/api/auth/uses';
        const response = await fetch((isReport && statuses.length === 0 ? previous : next) + pathname, init);
        if (isReport) statuses.push(response.status);
        return response;
      },
    },
    SYSTEM_CLOCK,
    { interval: 100, pause },
  );
  t.teardown(() => verifier.close());
  await verifier.ready();
  await verifier.verify(token);
  const usedAt = async () => {
    const rows = await sql<{ at: Date | null }>(
      databaseUrl,
      'SELECT last_used_at AS at FROM tokens WHERE id = $1',
      [id],
    );
    return rows[0]?.at?.getTime() ?? 0;
  };
  await until(async () => (await usedAt()) > 0);
  const before = await usedAt();
  // Older than the minute in which a time is moved once.
  await sql(databaseUrl, "UPDATE tokens SET last_used_at = now() - interval '1 hour' WHERE id = $1", [id]);
  await verifier.verify(token);
  await until(() => statuses.length > 0);
  const since = performance.now();
  await until(() => statuses.length > 1);
  t.ok(performance.now() - since > pause - 500, 'it waits');
  t.strictSame(statuses, [405, 200]);
  await until(async () => (await usedAt()) > before);
  const list = (await (await ask(previous, 'GET /api/user', bearer(access))).json()) as {
    tokens: { id: number; last_used_at: string | null }[];
  };
  t.type(list.tokens.find((each) => each.id === id)?.last_used_at, 'string', 'the previous release reads it');
}

async function answerOf<T>(t: Test, asked: Promise<Response>, status = 200): Promise<T> {
  const response = await asked;
  t.equal(response.status, status, response.url);
  return (await response.json()) as T;
}

function ask(url: string, line: string, headers: Record<string, string>, body?: object) {
  const [method = '', path = ''] = line.split(' ');
  const json = { 'content-type': 'application/json' };
  const init = body ? { headers: { ...headers, ...json }, body: JSON.stringify(body) } : { headers };
  return fetch(url + path, { method, ...init });
}
