// suite: e2e
import { randomBytes } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { EVENTS, type EventName } from '../../src/domain/audit/event.ts';
import { aManager } from '../support/accounts.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { assertDocumented } from '../support/audit-schema.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { firstStep, secondStep } from '../support/factors.ts';
import { logLines } from '../support/log-lines.ts';
import { aMailer, changeEmail, verifyEmail, type Mail } from '../support/mails.ts';
import { testFolder } from '../support/folder.ts';
import { confirmApp, FACTOR_PASSWORD, setUpApp } from '../support/own-factors.ts';
import { aBrowser, addPasskey, logInWithPasskey, PASSKEYS } from '../support/passkeys.ts';
import { aMailedReset, aReset, redeem } from '../support/resets.ts';
import { aRegisteredService, introspect, revoke } from '../support/registered-service.ts';
import { disableUser, sql } from '../support/sql.ts';
import { aStoredSession } from '../support/tokens.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const HEADERS = {
  'x-forwarded-for': '192.0.2.77',
  'user-agent': 'Kitchen/1.0',
  'x-request-id': 'breakfast-1',
};
const SOURCE = { address: '192.0.2.77', user_agent: 'Kitchen/1.0', request_id: 'breakfast-1' };

/** Every event that a test of this file has seen. */
const seen = new Set<string>();

/** The lines that `work` leaves, each checked against the schema. */
async function trailOf(t: Test, target: TestApp, work: () => Promise<unknown>) {
  const before = target.audit().length;
  await work();
  const lines = target.audit().slice(before);
  assertDocumented(t, lines);
  for (const { event } of lines) seen.add(String(event));
  return lines;
}

const as = (target: TestApp, line: string, token: string) => call(target, line, { token, headers: HEADERS });
const post = (target: TestApp, line: string, payload: object) =>
  call(target, line, { payload, headers: HEADERS });

async function aTarget(t: Test, env: Record<string, string> = {}) {
  // Without limits, only the first wrong password in a minute would leave an event.
  const limits = { RATE_LIMIT_ACCOUNT: '100/900', RATE_LIMIT_FACTOR: '100/900' };
  return buildTestApp(t, {
    env: { TRUST_PROXY: 'loopback', REFRESH_RETRY_WINDOW: '0', ...limits, ...PASSKEYS, ...env },
  });
}

test('signup, login and failed logins name the user, the session and the caller', async (t) => {
  const target = await aTarget(t, { MAX_SESSIONS_PER_USER: '1' });
  const account = anAccount();
  const { username, password } = account;
  const [signedUp] = await trailOf(t, target, () => post(target, 'POST /api/auth/signup', account));
  t.match(signedUp, { log: 'audit', event: 'user.signed_up', outcome: 'success', ...SOURCE });
  const user = signedUp?.subject as { user_id: number };
  t.match(signedUp?.actor, { type: 'user', ...user });
  const [replaced, created] = await trailOf(t, target, () =>
    post(target, 'POST /api/auth', { username, password }),
  );
  t.match(created, { event: 'session.created', subject: user, token_id: Number, ...SOURCE });
  t.match(replaced, {
    event: 'session.replaced',
    subject: user,
    token_id: signedUp?.token_id,
    details: { by: created?.token_id },
  });

  const refusal = async (payload: object) => {
    const lines = await trailOf(t, target, () => post(target, 'POST /api/auth', payload));
    t.match(lines, [{ event: 'login.failed', outcome: 'refused', actor: { type: 'anonymous' }, ...SOURCE }]);
    t.equal(lines.length, 1);
    return lines[0];
  };
  t.match(await refusal({ username, password: 'wrong' }), { subject: user, details: { reason: 'password' } });
  const unknown = await refusal({ username: 'no-such-name', password });
  t.match(unknown, { subject: { name_hash: String }, details: { reason: 'unknown' } });
  t.strictSame(
    (await refusal({ username: ' NO-such-name', password }))?.subject,
    unknown?.subject,
    'equal names have equal hashes',
  );
  t.notSame((await refusal({ username: 'another', password }))?.subject, unknown?.subject);
  await disableUser(target.databaseUrl, username);
  t.match(await refusal({ username, password }), { subject: user, details: { reason: 'disabled' } });
});

test('successful refreshes, verifications and introspections leave no event', async (t) => {
  const target = await aTarget(t);
  const client = await aRegisteredService(target.databaseUrl);
  const pair = await signUp(target);
  const lines = await trailOf(t, target, async () => {
    const next = pairOf(await refresh(target, pair.refresh_token));
    t.equal((await verify(target, next.access_token)).statusCode, 200);
    t.equal((await introspect(target, client, next.access_token)).statusCode, 200);
  });
  t.strictSame(lines, []);
});

test('a theft names the caller that presented the old token, and what ended', async (t) => {
  const target = await aTarget(t);
  const pair = await signUp(target);
  const session = Number(claimsOf(pair.access_token).sid);
  const { id } = await createLongLived(target, pair.access_token);
  const next = pairOf(await refresh(target, pair.refresh_token));
  await verify(target, next.access_token);
  const lines = await trailOf(t, target, () => refresh(target, pair.refresh_token, HEADERS));
  const subject = { user_id: pair.user.id };
  t.match(lines, [
    { event: 'session.reuse_detected', severity: 'warn', outcome: 'refused', subject, token_id: session },
    { event: 'llt.ended_for_reuse', subject, details: { token_ids: [id], count: 1, by: session } },
  ]);
  for (const line of lines) t.match(line, SOURCE, 'both name the request that found it');
});

test('a limited token names the session that asked, its scopes, and an audience that is not AUDIENCE', async (t) => {
  const target = await aTarget(t);
  await aRegisteredService(target.databaseUrl, 'orders', [], 'orders');
  const { user, access_token: token } = await signUp(target);
  const by = Number(claimsOf(token).sid);
  const subject = { user_id: user.id };
  for (const audience of [undefined, 'orders']) {
    let id = 0;
    const lines = await trailOf(t, target, async () => {
      ({ id } = await createLimited(target, token, ['orders:read', 'a'], { audience }));
    });
    const details = { by, scopes: 'orders:read a', ...(audience !== undefined && { audience }) };
    t.match(lines, [{ event: 'limited.created', severity: 'info', subject, token_id: id }]);
    t.strictSame(lines[0]?.details, details);
  }
});

test('logouts and long-lived tokens name the session that asked', async (t) => {
  const target = await aTarget(t);
  const { user, access_token: token } = await signUp(target);
  const by = Number(claimsOf(token).sid);
  const subject = { user_id: user.id };
  let llt = 0;
  const [created] = await trailOf(t, target, async () => {
    const payload = { device: 'Kitchen tablet' };
    const response = await call(target, 'POST /api/auth/llt', { token, payload, headers: HEADERS });
    llt = response.json<{ id: number }>().id;
  });
  t.match(created, { event: 'llt.created', subject, token_id: llt, details: { by }, ...SOURCE });
  const [deleted] = await trailOf(t, target, () => as(target, `DELETE /api/auth/llt/${llt}`, token));
  t.match(deleted, { event: 'token.revoked', token_id: llt, details: { by, type: 'llt' }, ...SOURCE });
  const other = await logIn(target, user.username);
  const [everywhere] = await trailOf(t, target, () =>
    as(target, 'DELETE /api/user/tokens?keep=current', token),
  );
  t.match(everywhere, {
    event: 'user.logged_out',
    details: { by, token_ids: [Number(claimsOf(other.access_token).sid)], count: 1, before: null },
    ...SOURCE,
  });
  const [loggedOut] = await trailOf(t, target, () => as(target, 'DELETE /api/auth', token));
  t.match(loggedOut, { event: 'token.revoked', token_id: by, details: { by, type: 'session' }, ...SOURCE });
});

test('a token that a registered service ends names the service', async (t) => {
  const target = await aTarget(t);
  const client = await aRegisteredService(target.databaseUrl);
  const pair = await signUp(target);
  const lines = await trailOf(t, target, () => revoke(target, client, pair.refresh_token));
  t.match(lines, [
    {
      event: 'token.revoked_by_client',
      actor: { type: 'service', client_id: client.serviceId },
      subject: { user_id: pair.user.id },
    },
  ]);
});

test('a change of an account by a registered service names the service', async (t) => {
  const target = await aTarget(t);
  const ask = await aManager(target.databaseUrl, target);
  const actor = { type: 'service', client_id: ask.client.serviceId };
  const event = async (line: string, payload?: object) => {
    const lines = await trailOf(t, target, () => ask(line, payload));
    t.equal(lines.length, 1, line);
    t.match(lines, [{ actor, outcome: 'success', subject: { user_id: Number } }]);
    return lines[0];
  };
  const account = anAccount();
  const created = await event('POST /api/users', account);
  t.match(created, { event: 'user.created_by_client' });
  const { user_id: id } = (created?.subject ?? {}) as { user_id?: number };
  t.match(await event(`POST /api/users/${id}/invitation`), { event: 'user.invited_by_client' });
  const changed = await event(`PATCH /api/users/${id}`, {
    name: 'B',
    email: account.email,
    email_verified: true,
  });
  t.match(changed, {
    event: 'user.changed_by_client',
    details: { fields: 'name,email,email_verified', disabled: false, token_ids: [] },
  });
  const open = async () => Number(claimsOf((await logIn(target, account.username)).access_token).sid);
  const first = await open();
  t.match(await event(`DELETE /api/users/${id}/tokens`), {
    event: 'user.logged_out_by_client',
    details: { token_ids: [first] },
  });
  t.match(await event(`POST /api/users/${id}/password-reset`), { event: 'user.reset_by_client' });
  const second = await open();
  t.match(await event(`DELETE /api/users/${id}`), {
    event: 'user.deleted_by_client',
    severity: 'warn',
    details: { token_ids: [second] },
  });
});

test('a clock that is wrong is an error', async (t) => {
  const target = await aTarget(t);
  const latest = (Date.now() + 600_000) * 1000;
  const session = await aStoredSession(target, { latest, first: latest });
  const [line] = await trailOf(t, target, () => refresh(target, session.mint('refresh', latest), HEADERS));
  t.match(line, { event: 'clock.wrong', severity: 'error', token_id: session.tokenId, ...SOURCE });
});

test('each limit leaves one event a key and window', async (t) => {
  const target = await aTarget(t, {
    RATE_LIMIT_LOGIN: '4/60',
    RATE_LIMIT_SIGNUP: '2/60',
    RATE_LIMIT_SIGNUP_NETWORK: '1/60',
    RATE_LIMIT_ACCOUNT: '1/900',
    RATE_LIMIT_NETWORK: '2/900',
  });
  const pair = await signUp(target);
  const attempt = (username: string, from: string, headers = {}) =>
    call(target, 'POST /api/auth', {
      payload: { username, password: 'wrong' },
      headers: { 'x-forwarded-for': from, ...headers },
    });
  const limits = async (work: () => Promise<unknown>) => {
    const lines = await trailOf(t, target, work);
    return lines
      .filter(({ event }) => event === 'limit.reached')
      .map(({ subject, details }) => ({ ...(subject as object), ...(details as object) }));
  };
  const ada = pair.user.username;
  const user_id = pair.user.id;
  const account = await limits(async () => {
    for (const from of ['198.51.100.1', '203.0.113.1', '203.0.113.2']) await attempt(ada, from);
  });
  t.strictSame(account, [{ user_id, limit: 'account', window_seconds: 900 }]);
  const network = await limits(async () => {
    for (const name of ['a', 'b', 'c', 'd']) await attempt(name, `192.0.2.${name.charCodeAt(0)}`);
  });
  t.strictSame(network, [{ limit: 'network', window_seconds: 900, network: '192.0.2.0/24' }]);
  const device = { authorization: `Bearer ${pair.refresh_token}` };
  const known = await limits(async () => {
    for (const from of ['198.51.101.1', '198.51.102.1', '198.51.103.1']) await attempt(ada, from, device);
  });
  t.strictSame(known, [{ user_id, limit: 'device', window_seconds: 900 }]);
  const unnamed = await limits(async () => {
    for (const from of ['198.51.104.1', '198.51.105.1']) await attempt('no-such-name', from);
  });
  t.match(unnamed, [{ name_hash: String, limit: 'account' }]);
  const address = await limits(async () => {
    for (let i = 0; i < 8; i++) await attempt(`name-${i}`, '100.64.0.1');
  });
  t.strictSame(address, [{ limit: 'login', window_seconds: 60 }]);
  const signups = await limits(async () => {
    for (let i = 0; i < 4; i++) await post(target, 'POST /api/auth/signup', anAccount());
  });
  const by_network = { limit: 'signup_network', window_seconds: 60, network: '192.0.2.0/24' };
  t.strictSame(signups, [by_network, { limit: 'signup', window_seconds: 60 }]);
});

test('keys that a replica gains, loses and signs with are events of the service', async (t) => {
  const secrets = join(t.testdir({}), 'secrets');
  const [old, next] = [randomBytes(32), randomBytes(32)].map((bytes) => bytes.toString('base64url'));
  writeFileSync(secrets, old ?? '');
  const target = await aTarget(t, { REFRESH_TOKEN_SECRET_FILE: secrets });
  const { keyRing } = target.composition.app;
  const lines = await trailOf(t, target, async () => {
    writeFileSync(secrets, next ?? '');
    await until(async () => {
      await keyRing.reload();
      return target.audit().length >= 3;
    });
  });
  const [kid = ''] = keyRing.current().refresh.map((key) => key.kid);
  t.match(lines, [
    { event: 'key.loaded', actor: { type: 'system', host: String }, subject: { kid } },
    { event: 'key.switched', subject: { kid }, details: { use: 'refresh', previous: String } },
    { event: 'key.removed', subject: { kid: String }, address: null },
  ]);
});

test('text that a client sends is bounded, and holds no control character, address or token', async (t) => {
  const target = await aTarget(t);
  const agent = (text: string) => ({ ...HEADERS, 'user-agent': text });
  const payload = { username: 'no-such-name', password: 'x' };
  const shown = async (text: string) => {
    const [line] = await trailOf(t, target, () =>
      call(target, 'POST /api/auth', { payload, headers: agent(text) }),
    );
    return line?.user_agent;
  };
  t.equal(await shown('a\tb\u0085c'), 'a b c');
  t.equal(await shown('x'.repeat(5000)), 'x'.repeat(256));
  t.equal(await shown('bot (+ada@example.com) eyJhbGciOiJub25l.e30'), 'bot [removed] [removed]');
});

test('a caller that resets its connection is still named', async (t) => {
  const target = await buildTestApp(t);
  await target.app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = target.app.server.address() as AddressInfo;
  const body = JSON.stringify({ username: 'no-such-name', password: 'x' });
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined);
  target.app.server.prependOnceListener('request', () => socket.resetAndDestroy());
  socket.write(
    `POST /api/auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
  await until(() => target.audit().length > 0);
  t.match(target.audit(), [{ event: 'login.failed', address: '127.0.0.1' }]);
});

test('changes of an account name the user and the session, and a reset names the user', async (t) => {
  const target = await aTarget(t);
  const { access_token: token, user } = await signUp(target);
  const by = claimsOf(token).sid;
  const subject = { user_id: user.id };
  const change = (line: string, payload: object) =>
    trailOf(t, target, () => call(target, line, { token, headers: HEADERS, payload }));
  const passwords = (current_password: string) => ({ current_password, new_password: 'analytical engine' });
  const wrong = await change('POST /api/user/password', passwords('a wrong password'));
  t.match(wrong, [{ event: 'password.wrong', outcome: 'refused', subject, details: { by }, ...SOURCE }]);
  const changed = await change('POST /api/user/password', passwords('difference engine'));
  t.match(changed, [{ event: 'password.changed', subject, details: { by }, ...SOURCE }]);
  const renamed = await change('PATCH /api/user', { name: 'Countess' });
  t.match(renamed, [{ event: 'user.changed', subject, details: { by, fields: 'name' }, ...SOURCE }]);

  const reset = await aReset(target.databaseUrl, user.id);
  const lines = await trailOf(t, target, async () => {
    for (let i = 0; i < 2; i++) await redeem(target, reset, 'a third engine of hers', HEADERS);
  });
  t.match(lines, [
    { event: 'password.reset', subject, ...SOURCE },
    { event: 'password.reset_failed', outcome: 'refused', subject: {}, ...SOURCE },
  ]);
  t.notMatch(JSON.stringify(target.audit()), reset);
});

test('a mail that is taken names the mailer, and its redemption the caller', async (t) => {
  const target = await aTarget(t);
  const { user, access_token: token } = await signUp(target);
  const mailer = await aMailer(target);
  const subject = { user_id: user.id };
  t.strictSame(
    await trailOf(t, target, () => as(target, 'POST /api/user/email-verification', token)),
    [],
    'a wish leaves none',
  );
  const mails: Mail[] = [];
  const taken = await trailOf(t, target, async () => mails.push(...(await mailer.take())));
  const [{ id, token: proof, email }] = mails as [Mail];
  t.match(taken, [{ event: 'mail.taken', actor: { type: 'service' }, subject }]);
  t.strictSame(taken[0]?.details, { kind: 'email_verification' });
  t.strictSame(await trailOf(t, target, () => mailer.settle(id)), []);
  const lines = await trailOf(t, target, async () => {
    for (const each of [proof, proof, `${proof}x`]) await verifyEmail(target, each, HEADERS);
  });
  t.match(lines, [
    { event: 'email.verified', outcome: 'success', subject, ...SOURCE },
    { event: 'email.verification_failed', outcome: 'refused', subject: {}, ...SOURCE },
  ]);
  t.notMatch(JSON.stringify(target.audit()), proof);
  t.notMatch(JSON.stringify(target.audit()), email);
});

test('an address that is asked for, proved and withdrawn names the session, and never an address', async (t) => {
  const target = await aTarget(t, { EMAIL_VERIFICATION: 'true' });
  const account = anAccount();
  const { user, access_token: token } = await signUp(target, account);
  const mailer = await aMailer(target);
  const [subject, by] = [{ user_id: user.id }, claimsOf(token).sid];
  const next = `next.${account.email}`;
  const wish = (email: string) => {
    const payload = { email, current_password: 'difference engine' };
    return call(target, 'PATCH /api/user', { token, payload, headers: HEADERS });
  };
  const asked = await trailOf(t, target, () => wish(next));
  t.match(asked, [
    { event: 'email.change_requested', outcome: 'success', subject, details: { by }, ...SOURCE },
  ]);
  t.equal(asked.length, 1);
  const [mail] = await mailer.take(1, ['email_change']);
  const lines = await trailOf(t, target, async () => {
    for (const proof of ['lkv_guess', mail?.token, mail?.token])
      await changeEmail(target, token, proof ?? '', HEADERS);
  });
  t.match(lines, [
    { event: 'email.verification_failed', outcome: 'refused', subject, details: { by }, ...SOURCE },
    { event: 'email.changed', outcome: 'success', subject, details: { by }, ...SOURCE },
  ]);
  t.equal(lines.length, 2, 'a repeat leaves none');
  await wish(account.email);
  const withdrawn = await trailOf(t, target, () => wish(next));
  t.match(withdrawn, [{ event: 'user.changed', subject, details: { by, fields: 'email' } }]);
  const other = await signUp(target);
  const reset = await aMailedReset(target.databaseUrl, other.user.id);
  t.match(await trailOf(t, target, () => redeem(target, reset, undefined, HEADERS)), [
    { event: 'password.reset', subject: { user_id: other.user.id } },
    { event: 'email.verified', subject: { user_id: other.user.id }, ...SOURCE },
  ]);
  const reported = await trailOf(t, target, async () => {
    for (let i = 0; i < 2; i++) await mailer.undeliverable(next);
  });
  t.match(reported, [
    { event: 'email.undeliverable', actor: { type: 'service' }, subject, details: { address: 'in_force' } },
  ]);
  t.equal(reported.length, 1);
  for (const text of [next, account.email, mail?.token ?? ''])
    t.notOk(JSON.stringify(target.audit()).includes(text));
});

test('a repeated logout is one event', async (t) => {
  const target = await aTarget(t);
  const { access_token: token } = await signUp(target);
  const lines = await trailOf(t, target, async () => {
    for (let i = 0; i < 3; i++) t.equal((await as(target, 'DELETE /api/auth', token)).statusCode, 200);
  });
  t.match(lines, [{ event: 'token.revoked' }]);
  t.equal(lines.length, 1);
});

test('a sink that fails refuses no request, and is logged once and counted', async (t) => {
  const folder = t.testdir({});
  const file = join(folder, 'audit.jsonl');
  // A folder in place of the file: every write fails, even for root.
  const target = await aTarget(t, { AUDIT_LOG: `file:${file}` });
  rmSync(file);
  mkdirSync(file);
  for (let i = 0; i < 3; i++) t.ok((await signUp(target)).access_token);
  const failures = async () =>
    /^latchkey_audit_write_failures_total (\d+)$/m.exec(await target.composition.ops.metrics())?.[1];
  await until(async () => (await failures()) === '3');
  const errors = () => logLines(target.log()).filter(({ level }) => level === 'error');
  t.match(errors(), [{ reason: 'EISDIR', target: `file:${file}`, msg: /audit events are lost: make space/ }]);
  t.equal(errors().length, 1);
  rmSync(file, { recursive: true });
  await signUp(target);
  await until(() => target.log().includes('audit events are written again'));
});

test('second factors: who added, used, replaced and removed them, and no code', async (t) => {
  const target = await aTarget(t);
  const ask = await aManager(target.databaseUrl, target);
  const account = anAccount();
  const { access_token: first, user } = await signUp(target, account);
  const subject = { user_id: user.id };
  const actor = { type: 'user', ...subject };
  const app = await setUpApp(target, first);
  const added = await trailOf(t, target, async () => {
    await confirmApp(target, first, app.code(9));
    await confirmApp(target, first, app.code());
  });
  t.match(added, [
    { event: 'factor.not_confirmed', outcome: 'refused', subject, details: { by: Number } },
    { event: 'factor.added', actor, details: { by: Number, factor_id: Number, type: 'totp' } },
  ]);
  let token = '';
  const asked = await trailOf(t, target, async () => {
    const login_token = await firstStep(target, account.username);
    await secondStep(target, { login_token, code: app.code(5) });
    token = pairOf(await secondStep(target, { login_token, code: app.code(1) })).access_token;
  });
  t.match(asked, [
    { event: 'login.factor_asked', subject },
    { event: 'factor.refused', outcome: 'refused', subject, details: { method: 'totp' } },
    { event: 'session.created', subject },
  ]);

  let recovery_code = '';
  const replaced = await trailOf(t, target, async () => {
    const line = 'POST /api/user/factors/recovery-codes';
    const answer = await call(target, line, { token, payload: FACTOR_PASSWORD });
    [recovery_code = ''] = answer.json<{ recovery_codes: string[] }>().recovery_codes;
  });
  t.match(replaced, [{ event: 'recovery_codes.replaced', actor, details: { by: claimsOf(token).sid } }]);
  const login_token = await firstStep(target, account.username);
  const used = await trailOf(t, target, () => secondStep(target, { login_token, recovery_code }));
  t.match(
    used.find(({ event }) => event === 'recovery_code.used'),
    { actor, token_id: Number },
  );

  const details = added[1]?.details as { factor_id: number } | undefined;
  const factor = details?.factor_id;
  const removed = await trailOf(t, target, async () => {
    await call(target, `POST /api/user/factors/${factor}/removal`, { token, payload: FACTOR_PASSWORD });
    await ask(`DELETE /api/users/${user.id}/factors`);
  });
  t.match(removed, [
    { event: 'factor.removed', actor, details: { factor_id: factor } },
    {
      event: 'factors.removed_by_client',
      actor: { type: 'service', client_id: ask.client.serviceId },
      subject,
      details: { count: 3 },
    },
  ]);
});

test('passkeys: who added and used them, and what is odd about them', async (t) => {
  const target = await aTarget(t);
  const { access_token: first, user } = await signUp(target);
  const actor = { type: 'user', user_id: user.id };
  let factor = 0;
  const browser = aBrowser();
  const added = await trailOf(t, target, async () => {
    ({ id: factor } = await addPasskey(target, first, browser));
  });
  const details = { factor_id: factor };
  t.match(added, [{ event: 'factor.added', actor, details: { ...details, type: 'passkey' } }]);
  const used = await trailOf(t, target, () => logInWithPasskey(target, browser));
  t.match(used, [{ event: 'session.created', actor, details: { method: 'passkey' } }]);
  await sql(
    target.databaseUrl,
    'UPDATE passkeys SET counter = 9, backup_eligible = NOT backup_eligible WHERE factor_id = $1',
    [factor],
  );
  const odd = await trailOf(t, target, () => logInWithPasskey(target, browser));
  t.match(odd.slice(1), [
    { event: 'passkey.counter_behind', actor, token_id: Number, details },
    { event: 'passkey.eligibility_changed', actor, token_id: Number, details },
  ]);
});

test('a seed leaves one event for all that it adds', async (t) => {
  const { username, name, email, password } = anAccount();
  const file = join(testFolder(t), 'seed.json');
  writeFileSync(file, JSON.stringify({ users: [{ username, name, email, password }] }));
  const target = await aTarget(t, { SEED_FILE: file });
  const lines = await trailOf(t, target, async () => {
    await target.composition.fillWithSeed?.();
    await target.composition.fillWithSeed?.();
  });
  t.match(lines, [
    {
      event: 'database.seeded',
      severity: 'warn',
      actor: { type: 'system' },
      details: { users: 1, services: 0 },
    },
  ]);
  t.equal(lines.length, 1, 'a second start adds nothing');
});

test('these tests have seen every event that a service writes', (t) => {
  const names = (Object.keys(EVENTS) as EventName[]).filter((name) => EVENTS[name].actor !== 'operator');
  t.strictSame([...seen].sort(), names.sort());
  t.end();
});
