import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, claimsOf, createLongLived, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { testDatabase } from '../../support/postgres.ts';
import { refused, refusedForOAuth } from '../../support/problem.ts';
import { aRegisteredService, basic, introspect, postForm } from '../../support/registered-service.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const INACTIVE = '{"active":false}';
const PATH = '/api/auth/introspect';

onAStore('describes a valid token', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const client = await aRegisteredService(target.databaseUrl);
  const pair = await signUp(target);
  const { id, longlived_token: llt } = await createLongLived(target, pair.access_token);
  const { username } = pair.user;

  const access = await introspect(target, client, pair.access_token);
  t.equal(access.statusCode, 200);
  t.equal(access.headers['cache-control'], 'no-store');
  t.match(access.headers['content-type'], /^application\/json/);
  const claims = claimsOf(pair.access_token);
  t.strictSame(access.json(), {
    ...claims,
    active: true,
    token_type: 'Bearer',
    token_use: 'access',
    username,
    roles: [],
  });
  t.match(claims, { sub: String(pair.user.id), sid: Number, gen: Number, exp: Number, iss: /./, aud: /./ });

  const longLived = (await introspect(target, client, llt)).json<object>();
  t.strictSame(longLived, {
    ...claimsOf(llt),
    active: true,
    token_type: 'Bearer',
    token_use: 'llt',
    username,
    roles: [],
  });
  t.match(longLived, { sid: id });
  t.notOk('exp' in longLived || 'gen' in longLived, 'a long-lived token does not expire');
});

onAStore('introspecting an access token counts as its use', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });
  const client = await aRegisteredService(target.databaseUrl);
  const first = await signUp(target);
  const second = pairOf(await refresh(target, first.refresh_token));
  t.match((await introspect(target, client, second.access_token)).json(), { active: true });
  // The owner holds the second pair, so a client that presents the first one stole it.
  refused(t, await refresh(target, first.refresh_token), 401, 'token_reused');
  t.equal((await introspect(target, client, second.access_token)).body, INACTIVE);
});

onAStore('introspecting a refresh token does not use it', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });
  const client = await aRegisteredService(target.databaseUrl);
  const first = await signUp(target);
  const second = pairOf(await refresh(target, first.refresh_token));
  for (const { refresh_token } of [first, second]) await introspect(target, client, refresh_token);
  t.equal(
    (await refresh(target, first.refresh_token)).statusCode,
    200,
    'the retry after a lost answer still works',
  );
});

onAStore('works without PostgreSQL', async (t, env) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url);
  const target = await buildTestApp(t, { env: { ...env, DATABASE_TIMEOUT: '500' }, databaseUrl: proxy.url });
  const client = await aRegisteredService(url);
  const { access_token: token } = await signUp(target);
  const { longlived_token: llt } = await createLongLived(target, token);
  for (const good of [token, llt]) t.match((await introspect(target, client, good)).json(), { active: true });

  proxy.set('refuse');
  for (const good of [token, llt]) t.match((await introspect(target, client, good)).json(), { active: true });
  const unknown = { ...client, serviceId: 'lkc_unknown' };
  refusedForOAuth(t, await introspect(target, unknown, token), 503, 'unavailable');
  proxy.set('pass');
  await until(async () => (await introspect(target, unknown, token)).statusCode === 401);
});

test('a replica that never loaded its clients answers 503 until it has', async (t) => {
  const { url } = await testDatabase(t);
  const proxy = await faultProxy(t, url);
  const client = await aRegisteredService(url);
  const target = await buildTestApp(t, { env: { DATABASE_TIMEOUT: '500' }, databaseUrl: proxy.url });
  proxy.set('refuse');
  refusedForOAuth(t, await introspect(target, client, 'x'), 503, 'unavailable');
  proxy.set('pass');
  await until(async () => (await introspect(target, client, 'x')).body === INACTIVE);
});

test('only a registered service may introspect, a user’s token may not', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl);
  const { access_token: token } = await signUp(target);
  for (const authorization of [
    '',
    `Basic ${token}`,
    basic({ serviceId: client.secret, secret: client.serviceId }).authorization,
    basic({ ...client, secret: '' }).authorization,
    basic({ ...client, secret: `${client.secret}\0` }).authorization,
    basic({ ...client, serviceId: `${client.serviceId}\0` }).authorization,
  ]) {
    const response = await postForm(target, PATH, null, { token }, { authorization });
    refusedForOAuth(t, response, 401, 'invalid_client');
  }
  const byUser = await postForm(target, PATH, null, { token }, { authorization: `Bearer ${token}` });
  refusedForOAuth(t, byUser, 401, 'invalid_token');
  // RFC 6749, section 2.3.1: credentials in the body are not accepted.
  const { serviceId: client_id, secret: client_secret } = client;
  const response = await postForm(target, PATH, null, { token, client_id, client_secret });
  refusedForOAuth(t, response, 401, 'invalid_client');
  refused(t, await verify(target, client.secret), 401, 'invalid_token');
});

test('a malformed request is 400, 413 or 415, with the fields that OAuth clients read', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl);
  const { access_token: token } = await signUp(target);
  for (const form of ['', 'token=', 'token', 'tokens=x', 'token_type_hint=access_token', 'TOKEN=x'])
    refusedForOAuth(t, await postForm(target, PATH, client, form), 400, 'validation_failed', ['/token']);
  for (const form of [
    'token=x&token=x',
    'token=x&token=y',
    'token=%',
    'token=%ff',
    Buffer.from([0x74, 0xff]),
  ])
    refusedForOAuth(t, await postForm(target, PATH, client, form), 400, 'validation_failed', ['']);
  const large = await postForm(target, PATH, client, { token: 'x'.repeat(17_000) });
  refusedForOAuth(t, large, 413, 'body_too_large');
  for (const type of [
    'application/json',
    'text/plain',
    'multipart/form-data',
    'application/x-www-form',
    '',
  ]) {
    const response = await postForm(target, PATH, client, `token=${token}`, { 'content-type': type });
    refusedForOAuth(t, response, 415, 'unsupported_media_type');
  }
  const nothing = await call(target, `POST ${PATH}`, { headers: basic(client) });
  refusedForOAuth(t, nothing, 400, 'validation_failed');
  const json = await postForm(target, PATH, client, '', { accept: 'application/json' });
  t.match(json.headers['content-type'], /^application\/json/, 'for clients that accept only JSON');
  t.match(json.json(), { error: 'invalid_request', code: 'validation_failed' });
  const typed = { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' };
  const hinted = await postForm(target, PATH, client, `token=${token}&token_type_hint=refresh_token`, typed);
  t.match(hinted.json(), { active: true }, 'a wrong hint does no harm');
});
