import type { Test } from 'tap';
import { HOTP, TOTP, URI } from 'otpauth';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  pairOf,
  signUp,
  type Pair,
} from '../../support/client.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../../support/factors.ts';
import { addApp, confirmApp, FACTOR_PASSWORD, setUpApp } from '../../support/own-factors.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';
import { onAStore, onEachStore } from '../../support/stores.ts';
import { aStoredSession } from '../../support/tokens.ts';

const RECOVERY_CODE = /^([A-Z2-7]{4}-){5}[A-Z2-7]{4}$/;

interface Listed {
  factors: { id: number; type: string; name: string; created_at: string; last_used_at: string | null }[];
  recovery_codes_left: number;
}

async function listed(target: TestApp, token: string): Promise<Listed> {
  const response = await call(target, 'GET /api/user/factors', { token });
  if (response.statusCode !== 200) throw new Error(`no list: ${response.body}`);
  return response.json();
}

function removal(target: TestApp, token: string, id: number | string, payload: object = FACTOR_PASSWORD) {
  return call(target, `POST /api/user/factors/${id}/removal`, { token, payload });
}

function newCodes(target: TestApp, token: string) {
  return call(target, 'POST /api/user/factors/recovery-codes', { token, payload: FACTOR_PASSWORD });
}

/** An account with a factor, and a session that was opened with it just now. */
async function anEnrolled(target: TestApp) {
  const account = anAccount();
  const old = await signUp(target, account);
  const factor = await aFactor(target, old);
  const pair = await logInWithFactor(target, account.username, factor);
  return { account, old, factor, pair, token: pair.access_token };
}

onEachStore('an authenticator app', async (t, env) => {
  const target = await buildTestApp(t, { env });

  await t.test('counts once it is confirmed, with a code that cannot be used again', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    t.strictSame(await listed(target, token), { factors: [], recovery_codes_left: 0 });

    const app = await setUpApp(target, token);
    const uri = URI.parse(app.otpauth_uri);
    t.ok(uri instanceof TOTP && !(uri instanceof HOTP));
    t.match(uri, {
      issuer: 'localhost',
      label: account.username,
      algorithm: 'SHA1',
      digits: 6,
      period: 30,
    });
    t.equal(uri.secret.base32, app.secret);
    t.equal(uri.secret.bytes.length, 20);
    t.strictSame(await listed(target, token), { factors: [], recovery_codes_left: 0 });
    const { access_token: other } = await logIn(target, account.username);

    const code = app.code();
    // As apps show it.
    const response = await confirmApp(target, token, code.replace(/^.../, '$&\u00a0'));
    t.equal(response.statusCode, 200, response.body);
    t.equal(response.headers['cache-control'], 'no-store');
    const { id, recovery_codes: codes } = response.json<{ id: number; recovery_codes: string[] }>();
    t.equal(new Set(codes).size, 10);
    for (const each of codes) t.match(each, RECOVERY_CODE);
    const list = await listed(target, token);
    t.match(list, {
      factors: [{ id, type: 'totp', name: 'Authenticator app', created_at: String, last_used_at: String }],
      recovery_codes_left: 10,
    });
    t.strictSame(await listed(target, other), list, 'no session has ended');

    const login_token = await firstStep(target, account.username);
    refused(t, await secondStep(target, { login_token, code }), 401, 'invalid_second_factor');
    const { access_token: late } = pairOf(
      await secondStep(target, { login_token, recovery_code: codes[0]?.toLowerCase() ?? '' }),
    );
    t.equal((await listed(target, late)).recovery_codes_left, 9);
    pairOf(await secondStep(target, { login_token, code: app.code(1) }));
  });

  await t.test('replaces the earlier one, and the recovery codes stay', async (t) => {
    const { account, factor, token } = await anEnrolled(target);
    await setUpApp(target, token);
    const app = await addApp(target, token);
    t.equal(app.recovery_codes, undefined);
    t.match(await listed(target, token), { factors: [{ id: app.id }], recovery_codes_left: 10 });
    const login_token = await firstStep(target, account.username);
    refused(t, await secondStep(target, { login_token, code: factor.code() }), 401, 'invalid_second_factor');
    pairOf(await secondStep(target, { login_token, code: app.code(1) }));
    const [recovery_code = ''] = factor.recoveryCodes;
    pairOf(await secondStep(target, { login_token, recovery_code }));
  });

  await t.test('can be removed, and a login is one step again', async (t) => {
    const { account, factor, token } = await anEnrolled(target);
    t.strictSame((await removal(target, token, factor.id)).json(), { msg: 'second factor removed' });
    t.strictSame(await listed(target, token), { factors: [], recovery_codes_left: 0 });
    await logIn(target, account.username);
    refused(t, await removal(target, token, factor.id), 404, 'factor_unknown');
    refused(t, await newCodes(target, token), 404, 'factor_unknown');
    const known = await sql(
      target.databaseUrl,
      'SELECT 1 FROM known_devices JOIN users ON users.id = user_id WHERE username = $1 AND with_factor',
      [account.username],
    );
    t.strictSame(known, [], 'no device is known by it any more');
  });
});

onAStore('changing second factors', async (t, env) => {
  const target = await buildTestApp(t, { env });

  await t.test('new recovery codes replace the earlier ones', async (t) => {
    const { account, factor, token } = await anEnrolled(target);
    const response = await newCodes(target, token);
    const { recovery_codes: codes } = response.json<{ recovery_codes: string[] }>();
    t.equal(new Set([...codes, ...factor.recoveryCodes]).size, 20);
    const login_token = await firstStep(target, account.username);
    const [old = '', recovery_code = ''] = [factor.recoveryCodes[0], codes[0]];
    refused(t, await secondStep(target, { login_token, recovery_code: old }), 401, 'invalid_second_factor');
    pairOf(await secondStep(target, { login_token, recovery_code }));
  });

  await t.test('a factor of another user, and one that is not confirmed, are unknown', async (t) => {
    const [mine, theirs] = [await anEnrolled(target), await anEnrolled(target)];
    await setUpApp(target, mine.token);
    const [unconfirmed] = await sql<{ id: string }>(
      target.databaseUrl,
      'SELECT id FROM factors WHERE confirmed_at IS NULL AND user_id = $1',
      [mine.pair.user.id],
    );
    for (const id of [theirs.factor.id, unconfirmed?.id ?? '', 999_999])
      refused(t, await removal(target, mine.token, id), 404, 'factor_unknown');
    for (const id of ['0', 'x', '9007199254740992'])
      refused(t, await removal(target, mine.token, id), 400, 'validation_failed', ['params/id']);
    t.equal((await listed(target, theirs.token)).factors.length, 1);
  });

  await t.test('what cannot be confirmed', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const { access_token: other } = await logIn(target, account.username);
    const wrong = (each: string, code: string) => refusedCode(t, target, each, code);
    await wrong(token, '123456');
    const app = await setUpApp(target, token);
    const code = app.code();
    await wrong(other, code);
    await wrong(token, app.code(3));
    for (const each of ['wrong!', `${code}0`, code.slice(1), ''])
      refused(t, await confirmApp(target, token, each), 400, 'validation_failed', ['/code']);
    refused(t, await confirmApp(target, token, 5 as never), 400, 'validation_failed', ['/code']);
    t.equal((await listed(target, token)).factors.length, 0);
    // A new set-up replaces it.
    const again = await setUpApp(target, token);
    await wrong(token, code);
    t.equal((await confirmApp(target, token, again.code())).statusCode, 200);
    await wrong(token, again.code());
    await wrong(token, again.code(1));
  });

  await t.test(
    'each takes the current password, and a session that was opened with the factor lately',
    async (t) => {
      const { old, factor, token } = await anEnrolled(target);
      const changes = {
        'POST /api/user/factors/totp': FACTOR_PASSWORD,
        'POST /api/user/factors/recovery-codes': FACTOR_PASSWORD,
        [`POST /api/user/factors/${factor.id}/removal`]: FACTOR_PASSWORD,
        'POST /api/user/factors/totp/confirm': { code: '123456' },
      };
      // What a thief may hold of an account whose owner is logged in.
      const { longlived_token: llt } = await createLongLived(target, token);
      const late = await aStoredSession(target, { latest: Date.now() * 1000 }, { acr: 'mfa' });
      await aFactor(target, { user: { id: late.userId } } as Pair);
      const lateToken = late.mint('access', await latestOf(target, late.tokenId));
      for (const [line, payload] of Object.entries(changes)) {
        refused(t, await call(target, line, { token: llt, payload }), 403, 'token_not_allowed');
        if (payload !== FACTOR_PASSWORD) continue;
        for (const [current_password, status, code] of [
          ['a guess', 401, 'invalid_credentials'],
          ['', 400, 'validation_failed'],
        ] as const)
          refused(t, await call(target, line, { token, payload: { current_password } }), status, code);
        for (const each of [old.access_token, lateToken])
          refused(t, await call(target, line, { token: each, payload }), 403, 'login_too_old');
      }
      t.match(await listed(target, token), { factors: [{ id: factor.id }], recovery_codes_left: 10 });
      t.match(await listed(target, llt), { factors: [{ id: factor.id }] }, 'a long-lived token may list');

      // It was set up before the account got its factor.
      const another = await signUp(target);
      const app = await setUpApp(target, another.access_token);
      await aFactor(target, another);
      refused(t, await confirmApp(target, another.access_token, app.code()), 403, 'login_too_old');
    },
  );

  await t.test('a login is recent for ten minutes, to the millisecond', async (t) => {
    const own = await buildTestApp(t, { env });
    const { token } = await anEnrolled(own);
    const query = 'SELECT created_at FROM tokens WHERE id = $1';
    const [row] = await sql<{ created_at: Date }>(own.databaseUrl, query, [claimsOf(token).sid]);
    const { clock } = own.composition.app;
    const openedAt = Number(row?.created_at);
    clock.now = () => openedAt + 600_000;
    t.equal((await newCodes(own, token)).statusCode, 200);
    clock.now = () => openedAt + 600_001;
    refused(t, await newCodes(own, token), 403, 'login_too_old');
  });

  await t.test('nothing that was shown is in the log or on the audit trail', async (t) => {
    const account = anAccount();
    const { access_token: first } = await signUp(target, account);
    const app = await setUpApp(target, first);
    const codes = [app.code(), app.code(1), app.code(5)];
    refused(t, await confirmApp(target, first, '000000'), 401, 'invalid_second_factor');
    const confirmed = (await confirmApp(target, first, codes[0] ?? '')).json<{
      id: number;
      recovery_codes: string[];
    }>();
    const login_token = await firstStep(target, account.username);
    const wrong = await secondStep(target, { login_token, code: codes[2] ?? '' });
    refused(t, wrong, 401, 'invalid_second_factor');
    const { access_token: token } = pairOf(await secondStep(target, { login_token, code: codes[1] ?? '' }));
    const replaced = (await newCodes(target, token)).json<{ recovery_codes: string[] }>();
    await removal(target, token, confirmed.id);

    const text = target.log() + JSON.stringify(target.audit());
    const shown = [...confirmed.recovery_codes, ...replaced.recovery_codes];
    for (const secret of [app.secret, app.otpauth_uri, 'otpauth:', ...shown, ...shown.map(withoutHyphens)])
      t.notOk(text.includes(secret));
    // Six digits of a longer number match by chance.
    for (const code of codes) t.notMatch(text, new RegExp(`(?<![\\w.-])${code}(?![\\w.-])`));
  });
});

onAStore('wrong codes at a confirmation', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, RATE_LIMIT_FACTOR: '3/900' } });
  const account = anAccount();
  const { access_token: token } = await signUp(target, account);
  const app = await setUpApp(target, token);
  for (let i = 0; i < 3; i++) await refusedCode(t, target, token, '000000');
  const limited = await confirmApp(target, token, app.code());
  refused(t, limited, 429, 'rate_limited');
  t.match(limited.json(), { reason: 'factor_setup' });
  const again = await addApp(target, token);
  const login_token = await firstStep(target, account.username);
  for (let i = 0; i < 3; i++)
    refused(t, await secondStep(target, { login_token, code: '000000' }), 401, 'invalid_second_factor');
  refused(t, await secondStep(target, { login_token, code: again.code(1) }), 429, 'rate_limited');
});

async function refusedCode(t: Test, target: TestApp, token: string, code: string): Promise<void> {
  refused(t, await confirmApp(target, token, code), 401, 'invalid_second_factor');
}

async function latestOf(target: TestApp, tokenId: number): Promise<number> {
  const [row] = await sql<{ latest: string }>(target.databaseUrl, 'SELECT latest FROM tokens WHERE id = $1', [
    tokenId,
  ]);
  return Number(row?.latest);
}

function withoutHyphens(code: string): string {
  return code.replaceAll('-', '');
}
