import { randomBytes } from 'node:crypto';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { audienceClients, exchange } from '../../support/audiences.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { aMovedClock } from '../../support/clock.ts';
import { aFactor, firstStep, secondStep, STEP } from '../../support/factors.ts';
import {
  openApiDocument,
  resolve,
  type Document,
  type JsonSchema,
  type Response,
} from '../../support/openapi.ts';
import { refused } from '../../support/problem.ts';
import { aReset } from '../../support/resets.ts';
import { countRows, sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import '../../support/watch-leaks.ts';

const PASSWORD = 'difference engine';

/** An account with a TOTP and recovery codes. */
async function anOwner(target: TestApp) {
  const account = anAccount();
  const pair = await signUp(target, account);
  return { ...account, pair, factor: await aFactor(target, pair) };
}

onAStore('second factor', async (t, env) => {
  const target = await buildTestApp(t, { env });

  await t.test('a right password is asked for the second step, and opens nothing', async (t) => {
    const owner = await anOwner(target);
    const { tokens } = await countRows(target.databaseUrl);
    for (const username of [owner.username, owner.email]) {
      const before = Date.now();
      const response = await call(target, 'POST /api/auth', { payload: { username, password: PASSWORD } });
      refused(t, response, 401, 'second_factor_required');
      const { login_token, methods, expires_at } = response.json<Record<string, string>>();
      t.match(login_token, /^lkl_[\w-]{86}$/);
      t.strictSame(methods, ['totp', 'recovery_code']);
      const age = Date.parse(expires_at ?? '') - before;
      t.ok(age >= 300_000 && age < 310_000, `five minutes: ${age}`);
    }
    const payload = { username: owner.username, password: 'wrong' };
    refused(t, await call(target, 'POST /api/auth', { payload }), 401, 'invalid_credentials');
    t.equal((await countRows(target.databaseUrl)).tokens, tokens);
  });

  await t.test('a code opens a session, which says so after each refresh', async (t) => {
    const { username, factor, pair } = await anOwner(target);
    t.equal(claimsOf(pair.access_token).acr, undefined, 'the session from before does not');
    const login_token = await firstStep(target, username);
    // As it is typed with an Arabic keyboard.
    const code = factor.code().replace(/\d/g, (digit) => '٠١٢٣٤٥٦٧٨٩'.charAt(Number(digit)));
    const response = await secondStep(target, { login_token, code, device: 'Phone' });
    const opened = pairOf(response);
    t.strictSame(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user']);
    t.equal(response.headers['cache-control'], 'no-store');
    const next = pairOf(await refresh(target, opened.refresh_token));
    for (const { access_token: token } of [opened, next])
      t.match(claimsOf(token), { acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] });
    t.equal((await verify(target, next.access_token)).statusCode, 200);
    const [device] = await sql(target.databaseUrl, 'SELECT name FROM tokens WHERE id = $1', [
      claimsOf(next.access_token).sid,
    ]);
    t.strictSame(device, { name: 'Phone' });
  });

  await t.test('a code works once, and no earlier one works after it; early and late ones do', async (t) => {
    const { username, factor } = await anOwner(target);
    const login_token = await firstStep(target, username);
    const attempt = (code: string) => secondStep(target, { login_token, code });
    const [late, now, early, far] = [-1, 0, 1, 3].map((steps) => factor.code(steps)) as [
      string,
      string,
      string,
      string,
    ];
    refused(t, await attempt(far), 401, 'invalid_second_factor');
    t.equal((await attempt(now)).statusCode, 200);
    for (const used of [now, late]) refused(t, await attempt(used), 401, 'invalid_second_factor');
    t.equal((await attempt(early)).statusCode, 200, 'the login token may be sent again');
    refused(t, await attempt(now), 401, 'invalid_second_factor');
  });

  await t.test('each recovery code works once, however it is written, and of its owner only', async (t) => {
    const owner = await anOwner(target);
    const other = await anOwner(target);
    const login_token = await firstStep(target, owner.username);
    const attempt = (recovery_code: string) => secondStep(target, { login_token, recovery_code });
    const [one = '', two = ''] = owner.factor.recoveryCodes;
    refused(t, await attempt(other.factor.recoveryCodes[0] ?? ''), 401, 'invalid_second_factor');
    t.equal((await attempt(one)).statusCode, 200);
    const pair = pairOf(await attempt(two.toLowerCase().replaceAll('-', ' ')));
    t.match(claimsOf(pair.access_token), { acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] });
    for (const used of [one, two]) refused(t, await attempt(used), 401, 'invalid_second_factor');
    await sql(target.databaseUrl, 'DELETE FROM recovery_codes WHERE user_id = $1', [owner.pair.user.id]);
    const payload = { username: owner.username, password: PASSWORD };
    const asked = await call(target, 'POST /api/auth', { payload });
    t.strictSame(asked.json<{ methods: unknown }>().methods, ['totp'], 'without codes they are not offered');
  });

  await t.test('exactly one proof', async (t) => {
    const { username, factor } = await anOwner(target);
    const login_token = await firstStep(target, username);
    const [code, recovery_code = ''] = [factor.code(), ...factor.recoveryCodes];
    const attempt = (payload: unknown) => call(target, 'POST /api/auth/second-factor', { payload });
    refused(t, await attempt({ login_token }), 400, 'validation_failed', ['/code']);
    const both = await attempt({ login_token, code, recovery_code });
    refused(t, both, 400, 'validation_failed', ['/recovery_code']);
    t.equal((await attempt({ login_token, code })).statusCode, 200, 'and none of them used the code up');
  });

  await t.test('a login token is for this purpose, unchanged', async (t) => {
    const { username, factor, pair } = await anOwner(target);
    const login_token = await firstStep(target, username);
    const payload = Buffer.from(login_token.slice(4), 'base64url');
    const spelled = (bytes: Uint8Array) => `lkl_${Buffer.from(bytes).toString('base64url')}`;
    const flipped = (at: number) => spelled(payload.map((byte, i) => (i === at ? byte ^ 1 : byte)));
    const { longlived_token: llt } = await createLongLived(target, (await signUp(target)).access_token);
    const others = [
      ...Array.from({ length: 64 }, (_, at) => flipped(at)),
      spelled(payload.subarray(0, -1)),
      spelled(Buffer.concat([payload, Buffer.alloc(1)])),
      spelled(randomBytes(64)),
      login_token.slice(4),
      `${login_token}=`,
      ` ${login_token}`,
      `${login_token}.`,
      '',
      'x',
      'lkl_',
      pair.access_token,
      pair.refresh_token,
      llt,
      await aReset(target.databaseUrl, pair.user.id),
    ];
    for (const other of others)
      refused(
        t,
        await secondStep(target, { login_token: other, code: factor.code() }),
        401,
        'invalid_login_token',
      );
    for (const line of [
      'GET /api/user',
      'GET /api/auth/refresh',
      'GET /api/auth/verify',
      'POST /api/auth/llt',
    ])
      refused(t, await call(target, line, { token: login_token, payload: undefined }), 401, 'invalid_token');
    t.equal((await secondStep(target, { login_token, code: factor.code() })).statusCode, 200);
  });

  await t.test('after five minutes the login begins again', async (t) => {
    const move = aMovedClock(t);
    const { username, factor } = await anOwner(target);
    const login_token = await firstStep(target, username);
    move(295_000);
    refused(t, await secondStep(target, { login_token, code: '000000' }), 401, 'invalid_second_factor');
    move(11_000);
    const [recovery_code = ''] = factor.recoveryCodes;
    refused(t, await secondStep(target, { login_token, recovery_code }), 401, 'invalid_login_token');
    const again = await firstStep(target, username);
    move(-10 * STEP);
    refused(t, await secondStep(target, { login_token: again, recovery_code }), 401, 'invalid_login_token');
  });

  await t.test('a secret whose key is not loaded is 503, and recovery codes work all the same', async (t) => {
    const owner = await anOwner(target);
    const { databaseUrl } = target;
    const other = await buildTestApp(t, { databaseUrl, env });
    const login_token = await firstStep(other, owner.username);
    const code = owner.factor.code();
    refused(t, await secondStep(other, { login_token, code }), 503, 'unavailable');
    const [recovery_code = ''] = owner.factor.recoveryCodes;
    t.equal((await secondStep(other, { login_token, recovery_code })).statusCode, 200);
    t.match(other.log(), /"KeyError: a secret needs the key [\w-]{16}, which FACTOR_KEYS lacks"/);
    const here = await firstStep(target, owner.username);
    t.equal((await secondStep(target, { login_token: here, code })).statusCode, 200, 'nothing was used up');
  });

  await t.test('by a clock that the stores contradict, codes are 503, and recovery codes work', async (t) => {
    let isTrusted = true;
    const wrong = await buildTestApp(t, { env });
    const { clock } = wrong.composition.app;
    clock.isTrusted = () => isTrusted;
    const owner = await anOwner(wrong);
    const login_token = await firstStep(wrong, owner.username);
    isTrusted = false;
    const code = owner.factor.code();
    refused(t, await secondStep(wrong, { login_token, code }), 503, 'unavailable');
    const [recovery_code = ''] = owner.factor.recoveryCodes;
    t.equal((await secondStep(wrong, { login_token, recovery_code })).statusCode, 200);
    const move = aMovedClock(t);
    move(400_000);
    refused(t, await secondStep(wrong, { login_token, code }), 503, 'unavailable');
    const opened = await signUp(wrong);
    for (const pair of [opened, await logIn(wrong, opened.user.username)]) {
      const { auth_time: time, iat } = claimsOf(pair.access_token);
      t.equal(time, iat, 'a session is opened by the clock of the stores');
    }
    move(-400_000);
    isTrusted = true;
    t.equal((await secondStep(wrong, { login_token, code })).statusCode, 200, 'nothing was used up');
  });
});

/** Every operation that issues a token which opens an account. */
const ISSUERS = [
  'signUp',
  'logIn',
  'completeLogin',
  'refresh',
  'createLongLivedToken',
  'createLimitedToken',
  'getToken',
] as const;

function issuersIn(document: Document): string[] {
  const issued = ['access_token', 'longlived_token', 'token'];
  const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
  return operations
    .filter(({ responses }) => {
      const answer = responses[200] && resolve<Response>(document, responses[200]);
      const schema = answer?.content?.['application/json']?.schema;
      const { properties = {} } = schema ? resolve<JsonSchema>(document, schema) : {};
      return Object.keys(properties as object).some((name) => issued.includes(name));
    })
    .map(({ operationId }) => operationId)
    .sort();
}

onAStore('with a password alone', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { username, email, factor } = await anOwner(target);

  await t.test('no operation issues a token', async (t) => {
    const { gateway } = await audienceClients(target.databaseUrl);
    const token = await firstStep(target, username);
    const ask = (line: string, payload?: object) => () => call(target, line, { token, payload });
    const attempts: Record<(typeof ISSUERS)[number], (() => ReturnType<typeof call>)[]> = {
      signUp: [ask('POST /api/auth/signup', { username, email, name: 'Ada', password: PASSWORD })],
      logIn: [username, email].map((name) => ask('POST /api/auth', { username: name, password: PASSWORD })),
      completeLogin: [{ code: factor.code(4) }, { recovery_code: PASSWORD }].map((proof) =>
        ask('POST /api/auth/second-factor', { login_token: token, ...proof }),
      ),
      refresh: [ask('GET /api/auth/refresh')],
      createLongLivedToken: [ask('POST /api/auth/llt', { device: 'x' })],
      createLimitedToken: [ask('POST /api/user/tokens', { name: 'x', scopes: ['orders:read'] })],
      getToken: [() => exchange(target, token), () => exchange(target, token, { by: gateway })],
    };
    t.strictSame(issuersIn(await openApiDocument()), [...ISSUERS].sort(), 'no other operation issues tokens');
    const before = await countRows(target.databaseUrl);
    for (const issuer of ISSUERS) {
      for (const attempt of attempts[issuer]) {
        const { statusCode, body } = await attempt();
        t.ok(statusCode === 400 || statusCode === 401, `${issuer}: ${statusCode}`);
        t.notMatch(body, /eyJ/, 'no token');
      }
    }
    t.strictSame(await countRows(target.databaseUrl), before);
  });
});
