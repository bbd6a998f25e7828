import { test, type Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { exchanged, exchangeForm, verifyFor } from '../../support/audiences.ts';
import { buildTestApp } from '../../support/app.ts';
import { bearer, call, claimsOf, headerOf, signUp, verify } from '../../support/client.ts';
import type { Document } from '../../support/openapi.ts';
import { refused, refusedForOAuth } from '../../support/problem.ts';
import { aRegisteredService, introspect, postForm, withRegistry } from '../../support/registered-service.ts';
import { askServiceToken, postAsService, serviceToken } from '../../support/service-tokens.ts';
import { until } from '../../support/until.ts';
import '../../support/watch-leaks.ts';

const ISSUER = 'https://auth.example';

/** `orders` and `stock` have audiences, `shop` may call orders, and each may introspect. */
async function aWorld(t: Test, env: Environment = {}) {
  const target = await buildTestApp(t, { env: { ISSUER, LOG_REQUESTS: 'all', ...env } });
  const { databaseUrl } = target;
  const orders = await aRegisteredService(databaseUrl, 'orders', ['introspect'], 'orders');
  const stock = await aRegisteredService(databaseUrl, 'stock', ['introspect'], 'stock');
  const shop = await aRegisteredService(
    databaseUrl,
    'shop',
    ['introspect', 'users.read', 'call:orders'],
    undefined,
    ['billing:read', 'x'],
  );
  const registry = <Result>(work: Parameters<typeof withRegistry<Result>>[1]) =>
    withRegistry(databaseUrl, work);
  return { target, orders, stock, shop, registry };
}

test('a service gets a token as itself', async (t) => {
  const { target, orders, shop } = await aWorld(t);
  const response = await askServiceToken(target, shop, 'orders', { scope: 'ignored' });
  t.equal(response.statusCode, 200);
  t.equal(response.headers['cache-control'], 'no-store');
  const { access_token: token, ...rest } = response.json<{ access_token: string }>();
  t.strictSame(rest, { token_type: 'Bearer', expires_in: 300 });
  t.match(headerOf(token), { typ: 'at+jwt', alg: 'ES256' });
  const { iat, exp, jti, ...claims } = claimsOf(token);
  t.strictSame(claims, {
    iss: ISSUER,
    aud: 'orders',
    sub: shop.serviceId,
    client_id: shop.serviceId,
    client_version: 1,
    roles: ['billing:read', 'x'],
  });
  t.equal(Number(exp) - Number(iat), 300);
  t.match(jti, /^[\w-]{22}$/);
  t.not(claimsOf(await serviceToken(target, shop)).jti, jti);
  const own = await serviceToken(target, orders, ISSUER);
  t.match(claimsOf(own), { aud: ISSUER, sub: orders.serviceId, roles: [] }, 'no right is needed');
});

test('verify and introspection say whose it is, with the present roles', async (t) => {
  const { target, orders, stock, shop, registry } = await aWorld(t);
  const token = await serviceToken(target, shop);
  await registry((clients) => clients.setRoles('shop', ['new']));
  target.composition.start();
  const asked = () => call(target, 'GET /api/auth/verify?audience=orders', { token });
  await until(async () => (await asked()).headers['x-auth-roles'] === 'new');
  const { headers, body } = await asked();
  t.equal(body, '');
  t.match(headers, {
    'x-auth-token-type': 'service',
    'x-auth-client': shop.serviceId,
    'x-auth-user': '',
    'x-auth-username': '',
    'x-auth-session': '',
  });
  t.strictSame(await verifyFor(target, token), [200, 200, 200, 200]);
  t.strictSame(await verifyFor(target, token, 'stock'), [401, 401, 401, 401]);
  refused(t, await verify(target, token), 401, 'invalid_token');

  const { iss, aud, sub, client_id, client_version, iat, exp, jti } = claimsOf(token);
  const answer: object = (await introspect(target, orders, token)).json();
  t.strictSame(answer, {
    active: true,
    token_type: 'Bearer',
    token_use: 'service',
    roles: ['new'],
    iss,
    aud,
    sub,
    client_id,
    client_version,
    iat,
    exp,
    jti,
  });
  const { components } = (await call(target, 'GET /docs/json')).json<Document>();
  const { required } = components.schemas.ActiveServiceToken ?? {};
  t.strictSame(new Set(required as string[]), new Set(Object.keys(answer)), 'as in the reference');
  for (const other of [stock, shop])
    t.strictSame((await introspect(target, other, token)).json(), { active: false });
});

test('of a user’s token, X-Auth-Client is the service that acts for the user', async (t) => {
  const { target } = await aWorld(t);
  const gateway = await aRegisteredService(target.databaseUrl, 'gateway', ['exchange']);
  const { access_token: user } = await signUp(target);
  const asked = async (token: string, path = '/api/auth/verify?audience=orders') =>
    (await call(target, `GET ${path}`, { token })).headers['x-auth-client'];
  t.equal(await asked(await exchanged(target, user, { by: gateway })), gateway.serviceId);
  t.equal(await asked(await exchanged(target, user)), '');
  t.equal(await asked(user, '/api/auth/verify'), '');
});

test('the right comes first, then the audience', async (t) => {
  const { target, shop, orders, registry } = await aWorld(t);
  // Registered before AUDIENCE was changed to it.
  await aRegisteredService(target.databaseUrl, 'former', [], 'latchkey');
  for (const [client, audience] of [
    [shop, 'stock'],
    [shop, 'none'],
    [shop, 'latchkey'],
    [orders, 'orders'],
  ] as const) {
    const response = await askServiceToken(target, client, audience);
    refusedForOAuth(t, response, 403, 'right_missing');
    t.match(response.json(), { detail: `The registered service lacks the right call:${audience}.` });
  }
  await registry((clients) => clients.allow('shop', ['call:none', 'call:latchkey']));
  for (const audience of ['none', 'latchkey']) {
    const response = await askServiceToken(target, shop, audience);
    refusedForOAuth(t, response, 400, 'invalid_target');
  }
});

test('a request that is not understood gets no token', async (t) => {
  const { target, shop, orders } = await aWorld(t);
  const token = await serviceToken(target, shop, ISSUER);
  const invalid = [400, 'validation_failed'] as const;
  const form = { grant_type: 'client_credentials', audience: 'orders' };
  const ask = (body: Record<string, string> | string, headers: Record<string, string> = {}) =>
    postForm(target, '/api/auth/token', headers.authorization === undefined ? shop : null, body, headers);
  refused(t, await askServiceToken(target, shop, ''), ...invalid, ['/audience'], 'invalid_request');
  refused(t, await ask({ audience: 'orders' }), ...invalid, ['/grant_type'], 'invalid_request');
  refused(
    t,
    await ask(`${new URLSearchParams(form).toString()}&audience=x`),
    ...invalid,
    [''],
    'invalid_request',
  );
  for (const grant_type of ['password', 'authorization_code', 'CLIENT_CREDENTIALS'])
    refusedForOAuth(t, await ask({ ...form, grant_type }), 400, 'unsupported_grant_type');
  for (const grant_type of ['client_credentials', 'password']) {
    const anonymous = await askServiceToken(target, null, 'orders', { grant_type });
    refusedForOAuth(t, anonymous, 401, 'invalid_client');
  }
  refusedForOAuth(t, await askServiceToken(target, { ...orders, secret: 'lks_x' }), 401, 'invalid_client');
  const large = await ask({ ...form, scope: 'x'.repeat(17 * 1024) });
  refusedForOAuth(t, large, 413, 'body_too_large');
  const byToken = await ask(form, bearer(token));
  refusedForOAuth(t, byToken, 401, 'invalid_client');
});

test('at Latchkey, a service token is good wherever the secret is, with the rights of now', async (t) => {
  const { target, shop, stock, registry } = await aWorld(t);
  target.composition.start();
  const { access_token: user } = await signUp(target);
  const token = await serviceToken(target, shop, ISSUER);
  t.match((await postAsService(target, '/api/auth/introspect', token, { token: user })).json(), {
    active: true,
  });
  t.equal((await call(target, 'GET /api/users?limit=1', { token })).statusCode, 200);
  const revoke = () => postAsService(target, '/api/auth/revoke', token, { token: 'x' });
  refusedForOAuth(t, await revoke(), 403, 'right_missing');
  const byService = () => postAsService(target, '/api/auth/token', token, exchangeForm(user, 'orders'));
  refusedForOAuth(t, await byService(), 403, 'right_missing');
  await registry((clients) => clients.allow('shop', ['revoke', 'exchange']));
  t.equal((await revoke()).statusCode, 200);
  const acting = await byService();
  t.match(claimsOf(acting.json<{ access_token: string }>().access_token), { act: { sub: shop.serviceId } });
  await until(async () => (await call(target, 'GET /api/users?limit=1', { token })).statusCode === 403);

  const forOrders = await serviceToken(
    target,
    await aRegisteredService(target.databaseUrl, 'c', ['call:orders']),
  );
  for (const other of [forOrders, user, `${token.slice(0, -8)}AAAAAAAA`, 'x']) {
    const response = await postAsService(target, '/api/auth/introspect', other, { token: user });
    refusedForOAuth(t, response, 401, 'invalid_token');
  }
  const ofStock = await serviceToken(target, stock, ISSUER);
  const subject = await postAsService(target, '/api/auth/token', ofStock, exchangeForm(ofStock, 'orders'));
  refusedForOAuth(t, subject, 400, 'invalid_subject_token');
});

test('end-tokens, disable, enable and delete', async (t) => {
  const { target, orders, shop, registry } = await aWorld(t);
  target.composition.start();
  const first = await serviceToken(target, shop);
  const status = async (token: string) => (await verifyFor(target, token))[0];
  const reason = async (token: string) =>
    (await call(target, 'GET /api/auth/verify?audience=orders', { token })).json<{ reason: string }>().reason;
  await registry((clients) => clients.endTokens('shop'));
  await until(async () => (await status(first)) === 401);
  t.equal(await reason(first), 'revoked');
  const second = await serviceToken(target, shop);
  t.match(claimsOf(second), { client_version: 2 });
  t.equal(await status(second), 200);

  const own = await serviceToken(target, shop, ISSUER);
  await registry((clients) => clients.disable('shop'));
  await until(async () => (await status(second)) === 401);
  t.equal(await reason(second), 'disabled');
  refusedForOAuth(t, await askServiceToken(target, shop), 401, 'invalid_client');
  refused(t, await call(target, 'GET /api/users?limit=1', { token: own }), 401, 'invalid_token');
  await registry((clients) => clients.enable('shop'));
  const third = await serviceToken(target, shop);
  t.equal(await status(third), 200, 'the answer of a change is found at once');
  t.equal(await status(second), 401, 'it stays ended');

  await registry((clients) => clients.allow('shop', []));
  await until(async () => (await status(third)) === 401);
  t.equal(await reason(third), 'right');
  t.strictSame((await introspect(target, orders, third)).json(), { active: false });
  await registry((clients) => clients.allow('shop', ['call:orders']));
  t.equal(await status(third), 200);
  await registry((clients) => clients.remove('orders'));
  await until(async () => (await askServiceToken(target, shop)).statusCode === 400);
  t.equal(await status(third), 200, 'its audience issues no more, but it is good until its exp');
  await registry((clients) => clients.remove('shop'));
  await until(async () => (await status(third)) === 401);
  t.equal(await reason(third), 'gone');
});
