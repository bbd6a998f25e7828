import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { claimsOf, createLongLived, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { refused, refusedForOAuth } from '../../support/problem.ts';
import { aRegisteredService, postForm, revoke } from '../../support/registered-service.ts';
import { onAStore } from '../../support/stores.ts';
import { aStoredSession } from '../../support/tokens.ts';

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

test('only a registered service may revoke, and it must name the token', async (t) => {
  const target = await buildTestApp(t);
  const client = await aRegisteredService(target.databaseUrl);
  const { access_token: token } = await signUp(target);
  refusedForOAuth(t, await revoke(target, null, token), 401, 'invalid_client');
  const wrong = await revoke(target, { ...client, secret: 'x' }, token);
  refusedForOAuth(t, wrong, 401, 'invalid_client');
  for (const form of ['', 'token=', `token=${token}&token=${token}`, `tokens=${token}`]) {
    const response = await postForm(target, '/api/auth/revoke', client, form);
    refusedForOAuth(t, response, 400, 'validation_failed');
  }
  const json = { 'content-type': 'application/json' };
  const other = await postForm(target, '/api/auth/revoke', client, JSON.stringify({ token }), json);
  refusedForOAuth(t, other, 415, 'unsupported_media_type');
  t.equal(await isGood(target, token), true);
});
