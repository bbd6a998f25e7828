import { test } from 'tap';
import { audienceClients, audiencePaths, exchanged, verifyFor } from '../../support/audiences.ts';
import { buildTestApp } from '../../support/app.ts';
import { ALL_METHODS } from '../../../src/http/plugins/method-not-allowed.ts';
import { call, claimsOf, createLongLived, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { aShiftedClock, aVictim, ENDINGS_ENVIRONMENT, RECORDED_ENDINGS } from '../../support/endings.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, introspect, revoke } from '../../support/registered-service.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const INACTIVE = '{"active":false}';
const GOOD = [200, 200, 200, 200];
const BAD = [401, 401, 401, 401];

onAStore('verify for an audience names the owner, for any method, path and body', async (t, env) => {
  const target = await buildTestApp(t, { env });
  await audienceClients(target.databaseUrl);
  const { access_token: subject, user } = await signUp(target);
  const token = await exchanged(target, subject);
  for (const path of audiencePaths()) {
    for (const method of ALL_METHODS.filter((each) => each !== 'CONNECT')) {
      const response = await call(target, `${method} ${path}`, {
        token,
        headers: { 'content-type': 'application/json' },
        ...(['POST', 'PUT'].includes(method) && { payload: '{' }),
      });
      t.equal(response.statusCode, 200, `${method} ${path}`);
      t.equal(response.body, '');
      t.match(response.headers, {
        'x-auth-user': String(user.id),
        'x-auth-username': user.username,
        'x-auth-roles': '',
        'x-auth-session': String(claimsOf(subject).sid),
        'x-auth-token-type': 'access',
        'x-auth-client': '',
        'cache-control': 'no-store',
      });
    }
    refused(t, await call(target, `GET ${path}`), 401, 'token_missing');
  }
});

test('the audience is read on the exact path only, and never guessed', async (t) => {
  const target = await buildTestApp(t);
  await audienceClients(target.databaseUrl);
  await aRegisteredService(target.databaseUrl, 'shop', [], 'shop');
  const { access_token: subject } = await signUp(target);
  const token = await exchanged(target, subject);
  const status = async (path: string, of: string, headers: Record<string, string> = {}) =>
    (await call(target, `GET ${path}`, { token: of, headers })).statusCode;
  for (const path of ['/api/auth/verify/?audience=orders', '/api/auth/verify/x?audience=orders']) {
    t.equal(await status(path, token), 401, path);
    t.equal(await status(path, subject), 200, path);
  }
  for (const path of [
    '/api/auth/verify?audience=',
    '/api/auth/verify?audience',
    '/api/auth/verify?audience=orders&audience=shop',
    '/api/auth/verify?audience=orders&audience=orders',
    '/api/auth/verify?audience=orders,shop',
    '/api/auth/audiences/orders%2Fverify/verify',
  ])
    for (const of of [token, subject]) t.equal(await status(path, of), 401, path);
  t.equal(await status('/api/auth/verify?other=1&audience=orders', token), 200);
  t.equal(await status('/api/auth/verify?other=orders', subject), 200, 'other parameters are ignored');
  t.equal(await status('/api/auth/audiences/shop/verify?audience=orders', token), 401);
  t.equal((await call(target, 'GET /api/auth/audiences//verify', { token })).statusCode, 401);
  refused(t, await call(target, 'GET /api/auth/audiences/orders', { token }), 404, 'not_found');
});

test('a query that a proxy has taken from its client names no audience', async (t) => {
  const target = await buildTestApp(t);
  await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  const token = await exchanged(target, subject);
  const status = async (of: string, query: string, uri: string) => {
    const headers = { 'x-forwarded-uri': uri };
    return (await call(target, `GET /api/auth/verify${query}`, { token: of, headers })).statusCode;
  };
  for (const query of [
    '?audience=orders',
    '?a=b&audience=orders',
    '?audience=orders&x',
    '?%61udience=orders',
  ])
    for (const of of [token, subject]) t.equal(await status(of, query, `/items${query}`), 401, query);
  // The proxy may have changed the query.
  for (const uri of ['/items?audience=shop', '/items?x&audience', '/items?%61udience=', '/?a?b&audience=x'])
    t.equal(await status(token, '?audience=orders', uri), 401, uri);
  for (const uri of ['', '/items', '/items?page=2', '/audience?a=audience', '/items?audiences=orders'])
    t.equal(await status(token, '?audience=orders', uri), 200, uri);
  t.equal(await status(subject, '?page=2', '/items?page=2'), 200);
});

test('introspection names the audience that the client may ask about', async (t) => {
  const AUDIENCE = 'https://id.example.com/é 100%';
  const target = await buildTestApp(t, { env: { AUDIENCE } });
  const { orders, gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject } = await signUp(target);
  for (const token of [subject, await exchanged(target, subject), 'no token']) {
    t.equal((await introspect(target, orders, token)).headers['x-latchkey-audience'], 'orders');
    const named = String((await introspect(target, gateway, token)).headers['x-latchkey-audience']);
    t.match(named, /^[!-~]+$/);
    t.equal(decodeURI(named), AUDIENCE);
  }
});

onAStore('only the client of its audience learns of it, and of no other token', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { orders, gateway } = await audienceClients(target.databaseUrl);
  const shop = await aRegisteredService(target.databaseUrl, 'shop', ['introspect'], 'shop');
  const { access_token: subject, user } = await signUp(target);
  const { longlived_token: llt } = await createLongLived(target, subject);
  const token = await exchanged(target, subject, { by: gateway });
  const own = await introspect(target, orders, token);
  t.strictSame(own.json(), {
    ...claimsOf(token),
    active: true,
    token_type: 'Bearer',
    token_use: 'access',
    username: user.username,
    roles: [],
  });
  t.match(own.json(), { aud: 'orders', client_id: gateway.serviceId, act: { sub: gateway.serviceId } });
  for (const other of [shop, gateway]) t.equal((await introspect(target, other, token)).body, INACTIVE);
  for (const other of [subject, llt]) {
    t.equal((await introspect(target, orders, other)).body, INACTIVE);
    t.match((await introspect(target, gateway, other)).json(), { active: true });
  }
});

onAStore('revocation of it is 200 without effect', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { orders, gateway } = await audienceClients(target.databaseUrl);
  const { access_token: subject, refresh_token } = await signUp(target);
  const token = await exchanged(target, subject);
  for (const client of [orders, gateway]) {
    const response = await revoke(target, client, token);
    t.strictSame([response.statusCode, response.body], [200, '']);
  }
  t.strictSame(await verifyFor(target, token), GOOD);
  t.equal((await verify(target, subject)).statusCode, 200);
  t.equal((await refresh(target, refresh_token)).statusCode, 200);
  t.equal(target.audit().filter(({ event }) => event === 'token.revoked_by_client').length, 0);
});

onAStore('a refresh does not end it, and its use confirms no pair', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, REFRESH_RETRY_WINDOW: '0' } });
  const { orders } = await audienceClients(target.databaseUrl);
  const first = await signUp(target);
  const token = await exchanged(target, first.access_token);
  // Each answer with a new pair is lost. If a use confirmed the pair, the next retry would count as theft.
  for (let i = 0; i < 3; i++) {
    pairOf(await refresh(target, first.refresh_token));
    t.strictSame(await verifyFor(target, token), GOOD);
    t.match((await introspect(target, orders, token)).json(), { active: true });
  }
  refused(t, await verify(target, first.access_token), 401, 'invalid_token');
});

onAStore('it ends with its session', async (t, env) => {
  const clock = aShiftedClock();
  const target = await buildTestApp(t, { env: { ...ENDINGS_ENVIRONMENT, ...env } });
  target.composition.start();
  const { orders } = await audienceClients(target.databaseUrl);
  for (const [name, end] of Object.entries(RECORDED_ENDINGS)) {
    const victim = await aVictim(target);
    const token = await exchanged(target, victim.caller.access_token);
    t.strictSame(await verifyFor(target, token), GOOD, name);
    await end(target, victim, clock);
    // Disabling by the operator's command reaches the replicas within a second.
    if (name === 'disabling the user') await until(async () => (await verifyFor(target, token))[0] === 401);
    t.strictSame(await verifyFor(target, token), BAD, name);
    t.equal((await introspect(target, orders, token)).body, INACTIVE, name);
  }
});
