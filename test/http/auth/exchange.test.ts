import { test } from 'tap';
import { ACCESS_TOKEN, audienceClients, exchange, exchanged, exchangeForm } from '../../support/audiences.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { managerOf } from '../../support/accounts.ts';
import {
  bearer,
  call,
  claimsOf,
  createLongLived,
  headerOf,
  pairOf,
  refresh,
  signUp,
} from '../../support/client.ts';
import { withKeys } from '../../support/keys.ts';
import { refused, refusedForOAuth } from '../../support/problem.ts';
import { aRegisteredService, basic, postForm, withRegistry } from '../../support/registered-service.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const PATH = '/api/auth/token';

/** A user with a role, as access tokens hold it. */
async function aUserWithRoles(target: TestApp, roles: string[]) {
  const { user, refresh_token } = await signUp(target);
  const client = await aRegisteredService(target.databaseUrl, `back office of ${user.id}`, ['users.write']);
  const manage = managerOf(target, client);
  await manage(`PATCH /api/users/${user.id}`, { roles });
  return { user, pair: pairOf(await refresh(target, refresh_token)), manage };
}

onAStore('the user’s client gets a token for one audience', async (t, env) => {
  const target = await buildTestApp(t, { env });
  await audienceClients(target.databaseUrl);
  const { pair } = await aUserWithRoles(target, ['admin', 'shop:read']);
  const subject = claimsOf(pair.access_token);
  const before = Math.floor(Date.now() / 1000);

  const response = await exchange(target, pair.access_token);
  t.equal(response.statusCode, 200);
  t.equal(response.headers['cache-control'], 'no-store');
  t.match(response.headers['content-type'], /^application\/json/);
  const { access_token: token, ...rest } = response.json<{ access_token: string }>();
  t.strictSame(rest, { issued_token_type: ACCESS_TOKEN, token_type: 'Bearer', expires_in: 300 });

  t.strictSame(headerOf(token), headerOf(pair.access_token));
  const { jti, iat, exp, ...claims } = claimsOf(token) as { jti: string; iat: number; exp: number };
  const { iss, sub, sid, gen, roles, auth_time } = subject;
  t.strictSame(claims, { iss, sub, sid, gen, roles, auth_time, aud: 'orders', client_id: 'latchkey' });
  t.strictSame(roles, ['admin', 'shop:read']);
  t.match(jti, /^[\w-]{22}$/);
  t.ok(iat >= before && iat <= Date.now() / 1000);
  t.equal(exp, iat + 300);
});

onAStore('a service with the right gets one that names it as the actor', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  const claims = claimsOf(await exchanged(target, subject, { by: gateway }));
  const { iss, sub, sid, gen, auth_time } = claimsOf(subject);
  const { serviceId } = gateway;
  const { jti, iat, exp, ...rest } = claims;
  const act = { sub: serviceId };
  const own = { aud: 'orders', client_id: serviceId, act };
  t.strictSame(rest, { iss, sub, sid, gen, auth_time, roles: [], ...own });
  t.match([jti, iat, exp], [String, Number, Number]);
});

test('EXCHANGED_TOKEN_TTL is the lifetime of a token', async (t) => {
  const target = await buildTestApp(t, { env: { EXCHANGED_TOKEN_TTL: '60' } });
  await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  t.match((await exchange(target, subject)).json(), { expires_in: 60 });
});

onAStore('the roles are the present ones', async (t, env) => {
  const target = await buildTestApp(t, { env });
  await audienceClients(target.databaseUrl);
  const { pair, manage, user } = await aUserWithRoles(target, ['admin']);
  t.strictSame(claimsOf(await exchanged(target, pair.access_token)).roles, ['admin']);
  await manage(`PATCH /api/users/${user.id}`, { roles: [] });
  const { roles } = claimsOf(await exchanged(target, pair.access_token));
  t.strictSame(roles, [], 'the removed role is not passed on');
});

onAStore('AUDIENCE and audiences that no client has are 400 invalid_target', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  // A client that took AUDIENCE, because the operator's command did not know the service's configuration.
  await aRegisteredService(target.databaseUrl, 'taken', [], 'latchkey');
  for (const audience of ['latchkey', 'shop', 'Orders', 'orders ', ' orders', 'x'.repeat(2000), '日本', '\0'])
    for (const by of [null, gateway]) {
      const response = await exchange(target, subject, { audience, by });
      refusedForOAuth(t, response, 400, 'invalid_target');
    }
});

test('an audience that was just registered is known at once, that of a deleted client ends', async (t) => {
  const { target: one, folder, secretFile } = await withKeys(t);
  const { databaseUrl } = one;
  const env = { SIGNING_KEYS_DIR: folder, REFRESH_TOKEN_SECRET_FILE: secretFile };
  const other = await buildTestApp(t, { databaseUrl, env });
  other.composition.start();
  const { access_token: subject } = await signUp(one);
  refusedForOAuth(t, await exchange(one, subject), 400, 'invalid_target');
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  for (const replica of [one, other]) t.equal((await exchange(replica, subject)).statusCode, 200);
  await withRegistry(databaseUrl, (registry) => registry.remove('orders'));
  await until(async () => (await exchange(other, subject)).statusCode === 400);
});

test('a service needs the right, and a secret that is good', async (t) => {
  const target = await buildTestApp(t);
  const { orders, gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  const without = await exchange(target, subject, { by: orders });
  refusedForOAuth(t, without, 403, 'right_missing');
  t.match(without.json(), { detail: / exchange\.$/ });
  const form = exchangeForm(subject, 'orders');
  for (const authorization of [
    '',
    'Bearer',
    'Bearer ',
    `Bearer ${subject} x`,
    `Basic ${subject}`,
    basic({ ...gateway, secret: 'x' }).authorization,
    basic({ ...gateway, serviceId: 'lkc_unknown' }).authorization,
    `DPoP ${subject}`,
  ]) {
    const response = await postForm(target, PATH, null, form, { authorization });
    refusedForOAuth(t, response, 401, 'invalid_client');
  }
});

test('the bearer token must be the subject token', async (t) => {
  const target = await buildTestApp(t);
  const { gateway } = await audienceClients(target.databaseUrl);
  const [own, foreign] = [await signUp(target), await signUp(target)];
  const form = exchangeForm(own.access_token, 'orders');
  for (const token of [own.refresh_token, 'x', gateway.secret]) {
    const response = await postForm(target, PATH, null, form, bearer(token));
    refusedForOAuth(t, response, 401, 'invalid_token');
  }
  const llt = await createLongLived(target, own.access_token);
  for (const token of [foreign.access_token, llt.longlived_token]) {
    const response = await postForm(target, PATH, null, form, bearer(token));
    refusedForOAuth(t, response, 400, 'validation_failed', ['/subject_token']);
  }
});

test('a malformed request is refused with the fields that OAuth clients read', async (t) => {
  const target = await buildTestApp(t);
  const { gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  const good = exchangeForm(subject, 'orders');
  for (const by of [null, gateway]) {
    const headers: Record<string, string> = by ? {} : bearer(subject);
    const ask = (form: Record<string, string> | string) => postForm(target, PATH, by, form, headers);
    const wrong: Record<string, string>[] = [
      { subject_token_type: 'urn:ietf:params:oauth:token-type:jwt' },
      { requested_token_type: 'urn:ietf:params:oauth:token-type:refresh_token' },
      ...Object.keys(good).map((name) => ({ [name]: '' })),
    ];
    for (const change of wrong) {
      const [name] = Object.keys(change);
      refusedForOAuth(t, await ask({ ...good, ...change }), 400, 'validation_failed', [`/${name}`]);
    }
    for (const type of ['authorization_code', 'refresh_token', 'password', 'x']) {
      for (const form of [{ ...good, grant_type: type }, { grant_type: type }])
        refusedForOAuth(t, await ask(form), 400, 'unsupported_grant_type');
    }
    const twice = `${new URLSearchParams(good).toString()}&audience=shop`;
    refusedForOAuth(t, await ask(twice), 400, 'validation_failed', ['']);
    const json = await postForm(target, PATH, by, JSON.stringify(good), {
      ...headers,
      'content-type': 'application/json',
    });
    refusedForOAuth(t, json, 415, 'unsupported_media_type');
    // RFC 6749, section 3.2: unknown parameters are ignored.
    const more = { scope: 'all', resource: 'https://x', foo: 'bar', requested_token_type: ACCESS_TOKEN };
    t.equal((await ask({ ...good, ...more })).statusCode, 200);
  }
  refused(t, await call(target, `GET ${PATH}`, { token: subject }), 405, 'method_not_allowed');
});

onAStore('an exchange counts as a use of its subject', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });
  await audienceClients(target.databaseUrl);
  const first = await signUp(target);
  const second = pairOf(await refresh(target, first.refresh_token));
  await exchanged(target, second.access_token);
  // The owner holds the second pair, so a client that presents the first one stole it.
  refused(t, await refresh(target, first.refresh_token), 401, 'token_reused');
});

test('exchanges are counted, and leave neither tokens nor lines in the log', async (t) => {
  const target = await buildTestApp(t);
  await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  const lines = target.log();
  const trail = target.audit().length;
  await exchanged(target, subject);
  t.equal(target.log(), lines, 'a successful one leaves no line');
  await exchange(target, 'x');
  await exchange(target, subject, { audience: 'shop' });
  const text = await target.composition.ops.metrics();
  for (const outcome of ['issued', 'subject', 'target'])
    t.match(text, `latchkey_exchanges_total{outcome="${outcome}"} 1`);
  t.notMatch(target.log(), /eyJ/);
  t.equal(target.audit().length, trail, 'the audit trail has no line for each');
});
