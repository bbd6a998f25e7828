import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import {
  claimsOf,
  createLongLived,
  headerOf,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { KEYS } from '../../support/keys.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { testDatabase } from '../../support/postgres.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, postForm, revoke } from '../../support/registered-service.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { aStoredSession, forge } from '../../support/tokens.ts';
import { until } from '../../support/until.ts';

const isGood = async (target: TestApp, token: string) => (await verify(target, token)).statusCode === 200;

onAStore('any token of a session ends that session only', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const client = await aRegisteredService(target.databaseUrl);
  const bystander = await signUp(target);
  for (const which of ['access', 'refresh', 'older access', 'older refresh']) {
    const older = await signUp(target);
    const { longlived_token: llt } = await createLongLived(target, older.access_token);
    const pair = pairOf(await refresh(target, older.refresh_token));
    const from = which.startsWith('older') ? older : pair;
    const token = which.endsWith('access') ? from.access_token : from.refresh_token;
    const response = await revoke(target, client, token);
    t.strictSame([response.statusCode, response.body], [200, ''], which);
    t.equal(response.headers['cache-control'], 'no-store');
    t.equal(await isGood(target, pair.access_token), false, which);
    refused(t, await refresh(target, pair.refresh_token), 401, 'invalid_token');
    t.equal(await isGood(target, llt), true, 'the long-lived token stays');
    t.equal((await revoke(target, client, token)).statusCode, 200, 'and again');
  }
  t.equal(await isGood(target, bystander.access_token), true);
  t.match(
    target.audit().filter(({ event }) => event === 'token.revoked_by_client'),
    [{ actor: { type: 'service', client_id: client.serviceId } }],
  );
  t.notMatch(target.log(), /eyJ/, 'no token');
});

onAStore('a long-lived token ends alone', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const client = await aRegisteredService(target.databaseUrl);
  await onEachLasting(t, 'alone', async (t, { createLongLived, verify }) => {
    const { access_token } = await signUp(target);
    const { longlived_token: llt } = await createLongLived(target, access_token);
    t.equal((await verify(target, llt)).statusCode, 200);
    const hinted = { token: llt, token_type_hint: 'refresh_token' };
    t.equal((await postForm(target, '/api/auth/revoke', client, hinted)).statusCode, 200);
    refused(t, await verify(target, llt), 401, 'invalid_token');
    t.equal((await verify(target, access_token)).statusCode, 200);
  });
});

onAStore('an expired token ends its session if the session goes on', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const client = await aRegisteredService(target.databaseUrl);
  const now = Date.now() * 1000;
  for (const type of ['access', 'refresh'] as const) {
    const session = await aStoredSession(target, { latest: now, first: now, confirmed: true });
    const fresh = session.mint('access', now);
    const expired = session.mint(type, now - 40 * 86_400e6);
    t.ok(Number(claimsOf(expired).exp) < now / 1e6 - 60, 'it has expired');
    t.equal(await isGood(target, fresh), true);
    t.equal(await isGood(target, expired), false);
    t.equal((await revoke(target, client, expired)).statusCode, 200);
    t.equal(await isGood(target, fresh), false, type);
  }
});

test('a foreign token or other text is 200 and ends nothing', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl);
  const { access_token: token } = await signUp(target);
  const [header, claims] = [headerOf(token), claimsOf(token)];
  for (const bad of [
    'x',
    '..',
    '\0',
    `${token}x`,
    `Bearer ${token}`,
    forge(header, claims, KEYS.ES256()),
    forge({ ...header, alg: 'none' }, claims),
    forge({ ...header, alg: 'HS256', typ: 'rt+jwt' }, claims, 'x'),
    'x'.repeat(15_000),
  ]) {
    const response = await revoke(target, client, bad);
    t.strictSame([response.statusCode, response.body], [200, '']);
  }
  t.equal(await isGood(target, token), true);
  const stranger = await aStoredSession(target, { latest: 9e15, first: 9e15 });
  await sql(target.databaseUrl, 'DELETE FROM tokens WHERE id = $1', [stranger.tokenId]);
  t.equal((await revoke(target, client, stranger.mint('refresh', 9e15))).statusCode, 200, 'purged');
});

test('it succeeds only once the record is written', async (t) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url);
  const target = await buildTestApp(t, { env: { DATABASE_TIMEOUT: '500' }, databaseUrl: proxy.url });
  const client = await aRegisteredService(url);
  const { access_token: token } = await signUp(target);
  t.equal((await revoke(target, client, 'x')).statusCode, 200);
  proxy.set('refuse');
  const away = await revoke(target, client, token);
  refused(t, away, 503, 'unavailable', undefined, 'temporarily_unavailable');
  t.equal(await isGood(target, token), true);
  proxy.set('pass');
  await until(async () => (await revoke(target, client, token)).statusCode === 200);
  t.equal(await isGood(target, token), false);
});

test('only a registered service may revoke, and it must name the token', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl);
  const { access_token: token } = await signUp(target);
  refused(t, await revoke(target, null, token), 401, 'invalid_client', undefined, 'invalid_client');
  const wrong = await revoke(target, { ...client, secret: 'x' }, token);
  refused(t, wrong, 401, 'invalid_client', undefined, 'invalid_client');
  for (const form of ['', 'token=', `token=${token}&token=${token}`, `tokens=${token}`]) {
    const response = await postForm(target, '/api/auth/revoke', client, form);
    refused(t, response, 400, 'validation_failed', undefined, 'invalid_request');
  }
  const json = { 'content-type': 'application/json' };
  const other = await postForm(target, '/api/auth/revoke', client, JSON.stringify({ token }), json);
  refused(t, other, 415, 'unsupported_media_type', undefined, 'invalid_request');
  t.equal(await isGood(target, token), true);
});
