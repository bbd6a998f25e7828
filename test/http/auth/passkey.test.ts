import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, logIn, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { firstStep, secondStep } from '../../support/factors.ts';
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
} from '../../support/passkeys.ts';
import { refused } from '../../support/problem.ts';
import { workDone } from '../../support/spy.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import '../../support/watch-leaks.ts';

const AMR = ['pop', 'user', 'mfa'];

const interaction = () => ({ options: { uv: false, up: true } });
/** An authenticator that asks for no PIN, whatever the options say. */
const UNVERIFIED = { userMakeCredentialInteraction: interaction, userGetAssertionInteraction: interaction };

/** An account with a passkey. */
async function anOwner(target: TestApp, browser = aBrowser()) {
  const account = anAccount();
  const pair = await signUp(target, account);
  return { ...account, pair, ...(await addPasskey(target, pair.access_token, browser)) };
}

onAStore('passkey', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS } });

  await t.test('opens a session alone, which says so after each refresh', async (t) => {
    const { browser, username } = await anOwner(target);
    const response = await sendPasskey(target, asserted(browser, await loginOptions(target)), {
      device: 'Phone',
    });
    const pair = pairOf(response);
    t.strictSame(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user']);
    t.equal(pair.user.username, username);
    const next = pairOf(await refresh(target, pair.refresh_token));
    for (const { access_token: token, refresh_token: secret } of [pair, next]) {
      t.match(claimsOf(token), { acr: 'phr', amr: AMR });
      t.match(claimsOf(secret), { amr: AMR });
    }
    for (const acr of ['mfa', 'phr']) {
      const { access_token: token } = next;
      const demanding = await call(target, `GET /api/auth/verify?demand_acr=${acr}`, { token });
      t.equal(demanding.statusCode, 200, acr);
    }
  });

  await t.test('whose options ask no store, and are not kept', async (t) => {
    t.strictSame(await workDone(t, () => loginOptions(target)), []);
    const [one, other] = await Promise.all([
      call(target, 'POST /api/auth/passkey'),
      call(target, 'POST /api/auth/passkey', { payload: {} }),
    ]);
    t.equal(one.headers['cache-control'], 'no-store');
    t.strictSame(Object.keys(one.json()), ['challenge', 'timeout', 'rpId', 'userVerification']);
    t.not(one.json<{ challenge: string }>().challenge, other.json<{ challenge: string }>().challenge);
    const named = await call(target, 'POST /api/auth/passkey', { payload: { username: 'ada' } });
    refused(t, named, 400, 'validation_failed', ['']);
  });

  await t.test('of every algorithm that is offered', async (t) => {
    for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
      const { browser } = await anOwner(target, aBrowser({ algorithmIdentifiers: [algorithm] }));
      t.match(claimsOf((await logInWithPasskey(target, browser)).access_token), { acr: 'phr' }, algorithm);
    }
  });

  await t.test('is a factor: a password asks for another one, and methods name it', async (t) => {
    const { username, recovery_codes: codes = [], pair } = await anOwner(target);
    const payload = { username, password: 'difference engine' };
    const asked = await call(target, 'POST /api/auth', { payload });
    refused(t, asked, 401, 'second_factor_required');
    t.strictSame(asked.json<{ methods: unknown }>().methods, ['recovery_code', 'passkey']);
    const login_token = await firstStep(target, username);
    pairOf(await secondStep(target, { login_token, recovery_code: codes[0] ?? '' }));
    await sql(target.databaseUrl, 'DELETE FROM recovery_codes WHERE user_id = $1', [pair.user.id]);
    const code = { login_token, code: '123456' };
    refused(t, await secondStep(target, code), 401, 'invalid_second_factor');
  });

  await t.test('signs a challenge that works once, in any order', async (t) => {
    const { browser } = await anOwner(target);
    const [first, second] = [
      asserted(browser, await loginOptions(target)),
      asserted(browser, await loginOptions(target)),
    ];
    for (const passkey of [second, first]) pairOf(await sendPasskey(target, passkey));
    for (const passkey of [first, second])
      refused(t, await sendPasskey(target, passkey), 401, 'invalid_passkey');
    const old = asserted(browser, await loginOptions(target));
    for (let i = 0; i < 32; i++) await logInWithPasskey(target, browser);
    refused(t, await sendPasskey(target, old), 401, 'invalid_passkey');
    const [row] = await sql<{ kept: number }>(
      target.databaseUrl,
      'SELECT cardinality(used_challenges)::int AS kept FROM passkeys ORDER BY kept DESC',
    );
    t.equal(row?.kept, 32);
  });

  await t.test('is refused with a login token, or beside a code', async (t) => {
    const { browser, username } = await anOwner(target);
    const passkey = asserted(browser, await loginOptions(target));
    const login_token = await firstStep(target, username);
    const refusedFor = async (more: object, path: string) => {
      refused(t, await sendPasskey(target, passkey, more), 400, 'validation_failed', [path]);
    };
    await refusedFor({ login_token }, '/login_token');
    await refusedFor({ code: '123456' }, '/code');
    await refusedFor({ recovery_code: 'x' }, '/recovery_code');
    const none = await call(target, 'POST /api/auth/second-factor', { payload: { code: '123456' } });
    refused(t, none, 400, 'validation_failed', ['/login_token']);
    pairOf(await sendPasskey(target, passkey));
  });

  await t.test('whose user was not verified, of another page, or altered', async (t) => {
    const owner = await anOwner(target);
    const options = await loginOptions(target);
    const good = asserted(owner.browser, options);
    const { response } = good;
    const attempt = async (change: object, what: string) => {
      const passkey = { ...good, response: { ...response, ...change } };
      refused(t, await sendPasskey(target, passkey), 401, 'invalid_passkey');
      t.pass(what);
    };
    const flip = (text: string) => {
      const bytes = Buffer.from(text, 'base64url');
      bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
      return bytes.toString('base64url');
    };
    await attempt({ signature: flip(response.signature) }, 'another signature');
    await attempt({ authenticatorData: flip(response.authenticatorData) }, 'another counter');
    await attempt({ signature: `${response.signature}=` }, 'padding');
    await attempt({ userHandle: undefined }, 'no handle');
    await attempt({ userHandle: (await anOwner(target)).options.user.id }, 'a foreign handle');
    const clientData = JSON.parse(Buffer.from(response.clientDataJSON, 'base64url').toString()) as object;
    for (const change of [
      { type: 'webauthn.create' },
      { origin: 'https://evil.example' },
      { crossOrigin: true },
      { topOrigin: ORIGIN },
    ]) {
      const text = Buffer.from(JSON.stringify({ ...clientData, ...change })).toString('base64url');
      await attempt({ clientDataJSON: text }, JSON.stringify(change));
    }
    const unverified = aBrowser({
      credentialsRepository: owner.browser.authenticator.params.credentialsRepository,
      ...UNVERIFIED,
    });
    refused(t, await sendPasskey(target, asserted(unverified, options)), 401, 'invalid_passkey');
    pairOf(await sendPasskey(target, good));
  });

  await t.test('signs a challenge of ours, which is not too old', async (t) => {
    const { browser } = await anOwner(target);
    const options = await loginOptions(target);
    const bytes = Buffer.from(options.challenge, 'base64url');
    for (const at of bytes.keys()) {
      const challenge = Buffer.from(bytes.map((byte, i) => (i === at ? byte ^ 1 : byte)));
      const passkey = asserted(browser, { ...options, challenge: challenge.toString('base64url') });
      refused(t, await sendPasskey(target, passkey), 401, 'invalid_passkey');
    }
    const { options: enrolment } = await anOwner(target);
    const other = asserted(browser, { ...options, challenge: enrolment.challenge });
    refused(t, await sendPasskey(target, other), 401, 'invalid_passkey');
  });

  await t.test('that was removed is unknown, unless its account enrols one', async (t) => {
    const { id, browser, username } = await anOwner(target);
    const { access_token: token } = await logInWithPasskey(target, browser);
    const stays = aBrowser();
    await addPasskey(target, token, stays);
    const removal = await call(target, `POST /api/user/factors/${id}/removal`, {
      token,
      payload: { current_password: 'difference engine' },
    });
    t.equal(removal.statusCode, 200, removal.body);
    const attempt = async () => sendPasskey(target, asserted(browser, await loginOptions(target)));
    refused(t, await attempt(), 401, 'passkey_unknown');
    const forged = asserted(browser, await loginOptions(target));
    const noHandle = { ...forged, response: { ...forged.response, userHandle: undefined } };
    refused(t, await sendPasskey(target, noHandle), 401, 'invalid_passkey');
    await enrolmentOptions(target, token);
    refused(t, await attempt(), 401, 'invalid_passkey');
    t.equal((await logInWithPasskey(target, stays)).user.username, username);
  });

  await t.test('of a disabled account opens nothing', async (t) => {
    const { browser, pair } = await anOwner(target);
    await sql(target.databaseUrl, 'UPDATE users SET disabled_at = now() WHERE id = $1', [pair.user.id]);
    const passkey = asserted(browser, await loginOptions(target));
    refused(t, await sendPasskey(target, passkey), 401, 'invalid_passkey');
  });

  await t.test(
    'whose counter is behind, or whose eligibility changed, is audited and accepted',
    async (t) => {
      const { browser, id, pair } = await anOwner(target);
      await sql(
        target.databaseUrl,
        'UPDATE passkeys SET counter = 1000, backup_eligible = NOT backup_eligible WHERE factor_id = $1',
        [id],
      );
      await logInWithPasskey(target, browser);
      const signals = target
        .audit()
        .filter(({ event }) => String(event).startsWith('passkey.'))
        .map(({ event, details }) => ({ event, ...(details as { factor_id: number }) }))
        .filter(({ factor_id: factor }) => factor === id);
      t.strictSame(
        signals.map(({ event }) => event),
        ['passkey.counter_behind', 'passkey.eligibility_changed'],
      );
      const [row] = await sql(target.databaseUrl, 'SELECT counter::int FROM passkeys WHERE factor_id = $1', [
        id,
      ]);
      t.strictSame(row, { counter: 1000 }, 'the greater one is kept');
      t.equal((await verify(target, pair.access_token)).statusCode, 200);
    },
  );

  await t.test('is counted apart from wrong codes', async (t) => {
    const { browser } = await anOwner(target);
    const passkey = asserted(browser, await loginOptions(target));
    refused(
      t,
      await sendPasskey(target, { ...passkey, response: { ...passkey.response, signature: 'AA' } }),
      401,
      'invalid_passkey',
    );
    const metrics = await target.composition.ops.metrics();
    t.match(metrics, /latchkey_second_steps_total\{outcome="passkey_refused"\} [1-9]/);
    t.match(metrics, /latchkey_second_steps_total\{outcome="passkey"\} [1-9]/);
    t.match(metrics, /latchkey_second_steps_total\{outcome="wrong"\} \d/);
  });
});

onAStore('a passkey is enrolled', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, ...PASSKEYS } });

  await t.test('and listed, with what a browser may be told', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const list = async () =>
      (await call(target, 'GET /api/user/factors', { token })).json<Record<string, unknown>>();
    t.equal((await list()).accepted_passkeys, undefined);
    const options = await enrolmentOptions(target, token);
    const { user, ...rest } = options;
    t.match(user, { name: account.username, displayName: account.name });
    t.equal(Buffer.from(user.id, 'base64url').length, 32);
    t.match(rest, {
      rp: { id: 'example.com', name: 'localhost' },
      timeout: 300_000,
      excludeCredentials: [],
      attestation: 'none',
      authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
    });
    t.strictSame(
      rest.pubKeyCredParams.map(({ alg }) => alg),
      [-7, -8, -257],
    );
    const passkey = created(aBrowser(), options);
    const transports = ['usb', 'nfc', 'usb', 'Carrier Pigeon'];
    const answer = { ...passkey, response: { ...passkey.response, transports } };
    const confirmed = await confirmPasskey(target, token, answer, ' Phone ');
    t.equal(confirmed.statusCode, 200, confirmed.body);
    const { id, recovery_codes: codes } = confirmed.json<{ id: number; recovery_codes: string[] }>();
    t.equal(codes.length, 10);
    t.match(await list(), {
      factors: [{ id, type: 'passkey', name: 'Phone', last_used_at: null }],
      recovery_codes_left: 10,
      accepted_passkeys: { rpId: 'example.com', userId: user.id, allAcceptedCredentialIds: [passkey.id] },
    });
    const kept = 'SELECT transports FROM passkeys WHERE factor_id = $1';
    t.strictSame(await sql(target.databaseUrl, kept, [id]), [{ transports: ['usb', 'nfc'] }]);
    refused(t, await confirmPasskey(target, token, passkey), 401, 'invalid_passkey');
  });

  await t.test('by a session that was opened with one, for a second one', async (t) => {
    const { browser, pair, passkey } = await anOwner(target);
    const second = { token: pair.access_token, payload: { current_password: 'difference engine' } };
    refused(t, await call(target, 'POST /api/user/factors/passkey', second), 403, 'login_too_old');
    const { access_token: token } = await logInWithPasskey(target, browser);
    const options = await enrolmentOptions(target, token);
    t.match(options.excludeCredentials, [{ id: passkey.id, type: 'public-key' }]);
    const confirmed = await confirmPasskey(target, token, created(aBrowser(), options));
    t.strictSame(Object.keys(confirmed.json()), ['id'], 'the recovery codes stay');
  });

  await t.test('once, by its own session, within five minutes, with its challenge', async (t) => {
    const account = anAccount();
    const { access_token: token } = await signUp(target, account);
    const { access_token: other } = await logIn(target, account.username);
    const browser = aBrowser();
    const options = await enrolmentOptions(target, token);
    const passkey = created(browser, options);
    refused(t, await confirmPasskey(target, other, passkey), 401, 'invalid_passkey');
    const wrong = created(browser, { ...options, challenge: (await loginOptions(target)).challenge });
    refused(t, await confirmPasskey(target, token, wrong), 401, 'invalid_passkey');
    const unbound = { ...passkey, clientExtensionResults: { credProps: { rk: false } } };
    refused(t, await confirmPasskey(target, token, unbound), 401, 'invalid_passkey');
    const blank = await confirmPasskey(target, token, passkey, ' ');
    refused(t, blank, 400, 'validation_failed', ['/name']);
    const unverified = aBrowser(UNVERIFIED);
    refused(t, await confirmPasskey(target, token, created(unverified, options)), 401, 'invalid_passkey');
    const age = (ms: number) =>
      sql(target.databaseUrl, `UPDATE factors SET created_at = created_at - $1::interval WHERE name = ''`, [
        `${ms} milliseconds`,
      ]);
    await age(306_000);
    refused(t, await confirmPasskey(target, token, passkey), 401, 'invalid_passkey');
    await age(-306_000);
    t.equal((await confirmPasskey(target, token, passkey)).statusCode, 200);
  });

  await t.test('of one account only', async (t) => {
    const owner = await anOwner(target);
    const { access_token: token } = await signUp(target);
    const options = await enrolmentOptions(target, token);
    const [row] = await sql<{ id: Buffer }>(
      target.databaseUrl,
      'SELECT credential_id AS id FROM passkeys WHERE factor_id = $1',
      [owner.id],
    );
    const passkey = created(aBrowser(), options);
    await sql(target.databaseUrl, 'UPDATE passkeys SET credential_id = $1 WHERE factor_id = $2', [
      Buffer.from(passkey.id, 'base64url'),
      owner.id,
    ]);
    refused(t, await confirmPasskey(target, token, passkey), 401, 'invalid_passkey');
    await sql(target.databaseUrl, 'UPDATE passkeys SET credential_id = $1 WHERE factor_id = $2', [
      row?.id,
      owner.id,
    ]);
    t.equal((await confirmPasskey(target, token, passkey)).statusCode, 200, 'the enrolment has stayed');
  });

  await t.test('ten times, and no more', async (t) => {
    const { browser, id } = await anOwner(target);
    const { access_token: token } = await logInWithPasskey(target, browser);
    for (let i = 1; i < 10; i++) await addPasskey(target, token);
    const payload = { current_password: 'difference engine' };
    const eleventh = () => call(target, 'POST /api/user/factors/passkey', { token, payload });
    refused(t, await eleventh(), 400, 'too_many_factors');
    await call(target, `POST /api/user/factors/${id}/removal`, { token, payload });
    t.equal((await eleventh()).statusCode, 200);
  });

  await t.test('and goes with the last factor, or the account', async (t) => {
    const { browser, id, username, pair } = await anOwner(target);
    const { access_token: token } = await logInWithPasskey(target, browser);
    const payload = { current_password: 'difference engine' };
    await call(target, `POST /api/user/factors/${id}/removal`, { token, payload });
    await logIn(target, username);
    await addPasskey(target, (await logIn(target, username)).access_token);
    await sql(target.databaseUrl, 'UPDATE users SET deleted_at = now() WHERE id = $1', [pair.user.id]);
    const [row] = await sql(
      target.databaseUrl,
      `SELECT passkey_handle AS handle, (SELECT count(*)::int FROM passkeys JOIN factors ON id = factor_id
        WHERE user_id = users.id) AS passkeys FROM users WHERE id = $1`,
      [pair.user.id],
    );
    t.strictSame(row, { handle: null, passkeys: 0 });
  });
});

onAStore('without the settings', async (t, env) => {
  const databaseUrl = (await buildTestApp(t, { env: { ...env, ...PASSKEYS } })).databaseUrl;
  const on = await buildTestApp(t, { env: { ...env, ...PASSKEYS }, databaseUrl });
  const { username, browser } = await anOwner(on);
  const passkey = asserted(browser, await loginOptions(on));
  const off = await buildTestApp(t, { env, databaseUrl });
  const other = await buildTestApp(t, {
    env: { ...env, WEBAUTHN_RP_ID: 'example.org', WEBAUTHN_ORIGINS: 'https://example.org' },
    databaseUrl,
  });
  refused(t, await call(off, 'POST /api/auth/passkey'), 403, 'factors_disabled');
  refused(t, await sendPasskey(off, passkey), 403, 'factors_disabled');
  refused(t, await sendPasskey(other, passkey), 401, 'invalid_passkey');
  for (const target of [off, other]) {
    const payload = { username, password: 'difference engine' };
    const asked = await call(target, 'POST /api/auth', { payload });
    refused(t, asked, 401, 'second_factor_required');
    t.strictSame(asked.json<{ methods: unknown }>().methods, ['recovery_code'], 'it stays a factor');
  }
  t.equal((await sendPasskey(on, passkey)).statusCode, 200);
});
