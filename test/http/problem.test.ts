import { test } from 'tap';
import { AuthError, type ErrorCode } from '../../src/domain/errors.ts';
import { detailOf, PROBLEMS } from '../../src/http/problem.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import {
  anAccount,
  call,
  createLimited,
  createLongLived,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { aFactor, loginTokenOf, secondStep } from '../support/factors.ts';
import { FACTOR_PASSWORD } from '../support/own-factors.ts';
import {
  addPasskey,
  asserted,
  loginOptions,
  logInWithPasskey,
  PASSKEYS,
  sendPasskey,
} from '../support/passkeys.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { exchange as tokenExchange } from '../support/audiences.ts';
import { aRegisteredService, basic, introspect } from '../support/registered-service.ts';
import { aStoredSession } from '../support/tokens.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const ANSWER_OF_ITS_OWN = ['internal_error', 'signup_disabled', 'rate_limited', 'overloaded', 'unavailable'];

test('some request produces each code, with its status, title and detail', async (t) => {
  const seen = new Map<string, unknown[]>();
  const note = (body: string) => {
    if (!body.includes('"code"')) throw new Error(`no problem: ${body}`);
    const { code, status, title, detail } = JSON.parse(body) as Record<string, string>;
    // What follows depends on the operation.
    seen.set(String(code), [status, title, detail?.replace(/ This operation takes .*/, '')]);
  };
  const target = await buildTestApp(t, { env: { MAX_LLT_PER_USER: '1', REQUEST_TIMEOUT: '1' } });
  await askAll(target, note);
  await askOverSocket(target, note);
  for (const env of [{ LLT_ENABLED: 'false' }, { LLT_LOGIN_MAX_AGE: '60' }])
    await askForLongLived(await buildTestApp(t, { env }), note);
  for (const options of [{ override: withoutFactorKeys }, { env: { EMAIL_VERIFICATION: 'true' } }])
    await askForFactor(await buildTestApp(t, options), note);
  await askForPasskey(await buildTestApp(t, { env: PASSKEYS }), note);
  const others = {
    internal_error: { override: breakProfile },
    signup_disabled: { env: { SIGNUP_ENABLED: 'false' } },
    rate_limited: { env: { RATE_LIMIT_SIGNUP: '1/60' } },
    overloaded: { env: { HASH_CONCURRENCY: '1', HASH_QUEUE: '0', SCRYPT_LOG_N: '15' } },
    unavailable: { env: { REDIS_URL: 'redis://127.0.0.1:1' }, storesAnswer: false },
  };
  t.strictSame(Object.keys(others), ANSWER_OF_ITS_OWN);
  for (const options of Object.values(others)) {
    const other = await buildTestApp(t, options);
    const answers = await Promise.all(
      [1, 2].map(() => call(other, 'POST /api/auth/signup', { payload: anAccount() })),
    );
    for (const { statusCode, body } of answers) if (statusCode !== 200) note(body);
    const granted = answers.find(({ statusCode }) => statusCode === 200);
    const token = granted && pairOf(granted).access_token;
    const profile = await call(other, 'GET /api/user', { token });
    if (profile.statusCode === 500) note(profile.body);
  }
  t.strictSame(
    [...seen].sort(([a], [b]) => a.localeCompare(b)),
    Object.entries(PROBLEMS)
      .map(([code, [status, title]]) => [code, [status, title, expectedDetail(code as ErrorCode)]])
      .sort(([a], [b]) => String(a).localeCompare(String(b))),
  );
});

/** The service of `askAll` lacks this right. */
function expectedDetail(code: ErrorCode): string {
  return code === 'right_missing' ? detailOf(code, 'introspect') : detailOf(code);
}

type Override = NonNullable<NonNullable<Parameters<typeof buildTestApp>[1]>['override']>;
const breakProfile: Override = (options) => ({
  ...options,
  useCases: { ...options.useCases, accountWithTokens: () => Promise.reject(new Error('broken')) },
});

/** The refusals that one service gives through `inject`. */
async function askAll(target: TestApp, note: (body: string) => void): Promise<void> {
  const account = anAccount();
  const { access_token: token, refresh_token } = await signUp(target, account);
  const { longlived_token: llt } = await createLongLived(target, token);
  const { token: limited } = await createLimited(target, (await signUp(target)).access_token);
  const requests: [line: string, options?: Parameters<typeof call>[2]][] = [
    ['POST /api/auth', { headers: JSON_TYPE, payload: '{' }],
    ['POST /api/auth', { payload: {} }],
    ['POST /api/auth', { payload: { username: 'unknown', password: 'x' } }],
    ['POST /api/auth', { headers: { 'content-type': 'text/plain' }, payload: 'x' }],
    ['POST /api/auth', { headers: JSON_TYPE, payload: 'x'.repeat(20_000) }],
    ['POST /api/auth/signup', { payload: account }],
    ['POST /api/auth/signup', { payload: anAccount({ email: account.email }) }],
    ['POST /api/auth/signup', { payload: anAccount({ password: 'password1' }) }],
    ['POST /api/auth/llt', { token, payload: { device: 'x' } }],
    ['POST /api/auth/llt', { token: llt, payload: { device: 'x' } }],
    ['GET /api/user'],
    ['GET /api/user', { token: 'x' }],
    ['DELETE /api/auth/999999', { token }],
    ['GET /api/auth/scopes/orders:write/verify', { token: limited }],
    ['GET /api/auth/verify?demand_acr=mfa', { token }],
    ['GET /nowhere'],
    ['PUT /api/auth'],
    ['OPTIONS /api/auth', { headers: { origin: 'https://x', 'access-control-request-method': 'POST' } }],
    ['POST /api/auth/introspect'],
    ['POST /api/auth/password-reset', { payload: { reset_token: 'x', password: 'x' } }],
    ['POST /api/auth/email-verification', { payload: { verification_token: 'x' } }],
  ];
  for (const [subject, audience, other] of [
    [token, 'orders', { grant_type: 'password' }],
    ['x', 'orders', {}],
    [token, 'latchkey', {}],
  ] as const)
    note((await tokenExchange(target, subject, { audience }, other)).body);
  for (const [line, options] of requests) note((await call(target, line, options)).body);
  await askForCode(target, note);
  await verify(target, pairOf(await refresh(target, refresh_token)).access_token);
  note((await refresh(target, refresh_token, { 'user-agent': 'another' })).body);
  const client = await aRegisteredService(target.databaseUrl, 'shop', ['revoke']);
  note((await introspect(target, client, token)).body);
  const writer = basic(await aRegisteredService(target.databaseUrl, 'import', ['users.write']));
  const create = () =>
    call(target, 'POST /api/users', { headers: writer, payload: { ...anAccount(), external_id: 'x' } });
  await create();
  note((await create()).body);
  const reader = await aRegisteredService(target.databaseUrl, 'desk', ['users.read']);
  note((await call(target, 'GET /api/users/999999', { headers: basic(reader) })).body);
  const now = Date.now() * 1000;
  const session = await aStoredSession(target, { latest: now - 60e6, parent: now - 90e6, confirmed: true });
  note((await refresh(target, session.mint('refresh', now - 90e6))).body);
}

/** The refusals of a login with a second factor. */
async function askForCode(target: TestApp, note: (body: string) => void): Promise<void> {
  const pair = await signUp(target);
  await aFactor(target, pair);
  const { username } = pair.user;
  const asked = await call(target, 'POST /api/auth', {
    payload: { username, password: 'difference engine' },
  });
  note(asked.body);
  for (const login_token of [loginTokenOf(asked), 'x'])
    note((await secondStep(target, { login_token, code: '000000' })).body);
}

/** As production without FACTOR_KEYS (domain/factors/own-factors). */
const withoutFactorKeys: Override = (options) => ({
  ...options,
  useCases: {
    ...options.useCases,
    ownFactors: {
      ...options.useCases.ownFactors,
      setUpTotp: () => Promise.reject(new AuthError('factors_disabled')),
    },
  },
});

/** An account without a factor, and without a verified address. */
async function askForFactor(target: TestApp, note: (body: string) => void): Promise<void> {
  const { access_token: token } = await signUp(target);
  for (const path of ['totp', 'recovery-codes'])
    note((await call(target, `POST /api/user/factors/${path}`, { token, payload: FACTOR_PASSWORD })).body);
}

/** An account with ten passkeys, of which it removes one. */
async function askForPasskey(target: TestApp, note: (body: string) => void): Promise<void> {
  const { access_token: first } = await signUp(target);
  const { browser, id } = await addPasskey(target, first);
  const { access_token: token } = await logInWithPasskey(target, browser);
  for (let i = 1; i < 10; i++) await addPasskey(target, token);
  const options = { token, payload: FACTOR_PASSWORD };
  note((await call(target, 'POST /api/user/factors/passkey', options)).body);
  const passkey = asserted(browser, await loginOptions(target));
  note((await sendPasskey(target, { ...passkey, type: 'x' })).body);
  await call(target, `POST /api/user/factors/${id}/removal`, options);
  note((await sendPasskey(target, passkey)).body);
}

/** A session with a login an hour ago requests a long-lived token. */
async function askForLongLived(target: TestApp, note: (body: string) => void): Promise<void> {
  const latest = Date.now() * 1000;
  const token = (await aStoredSession(target, { latest, first: latest })).mint('access', latest);
  note((await call(target, 'POST /api/auth/llt', { token, payload: { device: 'x' } })).body);
}

/** Refusals that come before the router. */
async function askOverSocket({ app }: TestApp, note: (body: string) => void): Promise<void> {
  await app.listen({ host: '127.0.0.1', port: 0 });
  const texts = [
    'nonsense\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: x\r\nExpect: a miracle\r\n\r\n',
    `GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(20_000)}\r\n\r\n`,
    'POST /api/auth HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\n{',
  ];
  const received = await Promise.all(texts.map((text) => exchange(app.listeningOrigin, text)));
  for (const { body } of received.flatMap(answersIn)) note(body);
}
