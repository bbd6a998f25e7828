import { ALL_METHODS } from '../../../src/http/plugins/method-not-allowed.ts';
import { buildTestApp } from '../../support/app.ts';
import { audienceClients, exchanged } from '../../support/audiences.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  signUp,
  verify,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, basic, introspect, withRegistry } from '../../support/registered-service.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { workDone } from '../../support/spy.ts';
import { onAStore } from '../../support/stores.ts';

/** The paths that demand these scopes, for AUDIENCE and for `orders`. Anything may follow. */
const OWN = (scopes: string) =>
  ['', '/', '/items/7?scope=none&scopes=none'].map((rest) => `/api/auth/scopes/${scopes}/verify${rest}`);
const OF_ORDERS = (scopes: string) =>
  OWN(scopes).map((path) => path.replace('/auth/', '/auth/audiences/orders/'));

onAStore('verify with scopes', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  await audienceClients(databaseUrl);
  const shop = await aRegisteredService(databaseUrl, 'shop', ['call:orders']);
  const account = anAccount();
  const { access_token: access, refresh_token, user } = await signUp(target, account);
  const { id, token } = await createLimited(target, access, ['orders:read', 'billing']);
  const forOrders = await createLimited(target, access, ['orders:read'], { audience: 'orders' });
  const ask = (path: string, bearer: string | undefined, headers: Record<string, string> = {}) =>
    call(target, `GET ${path}`, { token: bearer, headers });

  await t.test(
    'names the owner of a token that has all of them, for any method, path and body',
    async (t) => {
      for (const path of [...OWN('orders:read'), ...OWN('billing,orders:read')])
        for (const method of ALL_METHODS) {
          const response = await call(target, `${method} ${path}`, {
            token,
            headers: { 'content-type': 'application/json' },
            ...(['POST', 'PUT'].includes(method) && { payload: '{"scopes":["x"]}' }),
          });
          t.equal(response.statusCode, 200, `${method} ${path}`);
          t.equal(response.body, '');
          t.match(response.headers, {
            'x-auth-user': String(user.id),
            'x-auth-username': account.username,
            'x-auth-roles': '',
            'x-auth-session': String(id),
            'x-auth-token-type': 'limited',
            'x-auth-client': '',
            'cache-control': 'no-store',
          });
        }
      for (const path of OF_ORDERS('orders:read'))
        t.match((await ask(path, forOrders.token)).headers, {
          'x-auth-user': String(user.id),
          'x-auth-session': String(forOrders.id),
          'x-auth-token-type': 'limited',
        });
    },
  );

  await t.test('sends the headers of verify, and no others', async (t) => {
    const names = (headers: object) => Object.keys(headers).sort();
    const [path = ''] = OWN('orders:read');
    t.strictSame(names((await ask(path, token)).headers), names((await verify(target, access)).headers));
  });

  await t.test('is 403 with the challenge if one is missing', async (t) => {
    for (const [path, bearer] of [
      ...OWN('orders:write').map((each) => [each, token] as const),
      ...OWN('orders:read,orders:write').map((each) => [each, token] as const),
      ...OWN('orders').map((each) => [each, token] as const),
      ...OF_ORDERS('billing').map((each) => [each, forOrders.token] as const),
    ]) {
      const response = await ask(path, bearer);
      refused(t, response, 403, 'insufficient_scope');
      t.match(response.json(), { reason: 'scope' });
      t.equal(response.headers['x-auth-user'], undefined);
    }
    const [path = ''] = OWN('orders:read,orders:write');
    t.equal(
      (await ask(path, token)).headers['www-authenticate'],
      'Bearer error="insufficient_scope", scope="orders:read orders:write"',
    );
    const bearer = (await createLimited(target, access, ['a'])).token;
    await call(target, 'DELETE /api/auth', { token: bearer });
    refused(t, await ask(path, bearer), 401, 'invalid_token');
  });

  await t.test('other tokens pass as they do at verify', async (t) => {
    const { longlived_token: llt } = await createLongLived(target, access);
    const good = await exchanged(target, access);
    const ofShop = await serviceToken(target, shop);
    const all = { access, llt, good, ofShop, token, forOrders: forOrders.token, refresh_token, x: 'x' };
    const passing = async (paths: string[]) => {
      const passed: string[] = [];
      for (const [name, each] of Object.entries(all)) {
        const statuses = await Promise.all(paths.map(async (path) => (await ask(path, each)).statusCode));
        t.equal(new Set(statuses).size, 1, `${name} ${statuses.join()}`);
        if (statuses[0] === 200) passed.push(name);
        // The wrong kind of token, and not a bad one.
        else if (statuses[0] === 403) passed.push(`not ${name}`);
        else t.equal(statuses[0], 401, name);
      }
      return passed;
    };
    // Twice, since a verified token is remembered.
    for (let i = 0; i < 2; i++) {
      t.strictSame(await passing(OWN('orders:read')), ['access', 'llt', 'token']);
      t.strictSame(await passing(OF_ORDERS('orders:read')), ['good', 'ofShop', 'forOrders']);
      t.strictSame(await passing(['/api/auth/verify', '/api/auth/verify/scopes/orders:read/verify']), [
        'access',
        'llt',
        'not token',
      ]);
      t.strictSame(await passing(['/api/auth/verify?audience=orders', '/api/auth/audiences/orders/verify']), [
        'good',
        'ofShop',
        'not forOrders',
      ]);
      t.strictSame(await passing(['/api/auth/audiences/shop/scopes/orders:read/verify']), []);
      t.strictSame(await passing(['/api/auth/audiences/latchkey/scopes/orders:read/verify']), []);
      t.strictSame(await passing(['/api/auth/audiences/latchkey%23limited/scopes/orders:read/verify']), []);
      t.strictSame(await passing(['/api/auth/audiences/orders%23limited/verify']), []);
      t.strictSame(await passing(['/api/auth/verify?audience=orders%23limited']), []);
    }
    for (const path of [...OWN('orders:read'), ...OF_ORDERS('orders:read')])
      refused(t, await ask(path, undefined), 401, 'token_missing');
  });

  await t.test('scopes that have not their form are 404, whatever the token', async (t) => {
    const many = Array.from({ length: 33 }, (_, i) => `s${i}`);
    for (const scopes of ['', 'a,', 'a,a', 'Orders', 'a%20b', 'x'.repeat(65), many.join()])
      for (const path of ['', '/audiences/orders'].map((of) => `/api/auth${of}/scopes/${scopes}/verify`))
        for (const each of [access, token, undefined]) refused(t, await ask(path, each), 404, 'not_found');
    for (const path of ['scopes', 'scopes/a', 'scopes/a/verifyx'])
      t.not((await ask(`/api/auth/${path}`, access)).statusCode, 200, path);
    const most = many.slice(1).join();
    t.equal((await ask(`/api/auth/scopes/${most}/verify`, access)).statusCode, 200);
  });

  await t.test('are read from nowhere else', async (t) => {
    const { token: less } = await createLimited(target, access, ['less']);
    const [path = ''] = OWN('orders:read');
    for (const [query, headers] of [
      ['?scope=less', {}],
      ['?scopes=less', {}],
      ['/scopes/less/verify', {}],
      ['/..%2f..%2fless/verify', {}],
      ['', { 'x-forwarded-uri': '/api/auth/scopes/less/verify?scope=less' }],
      ['', { 'x-original-url': '/api/auth/scopes/less/verify' }],
      ['', { scope: 'less', 'x-auth-scope': 'less', 'x-scopes': 'less' }],
    ] as const)
      refused(t, await ask(path + query, less, headers), 403, 'insufficient_scope');
    for (const query of ['?scope=less', '?scopes=less'])
      refused(t, await ask(`/api/auth/verify${query}`, less), 403, 'insufficient_scope');
    refused(t, await ask('/api/auth/verify?audience=latchkey&scope=less', less), 401, 'invalid_token');
  });

  await t.test('where none is demanded, a limited token is 403, also one that has ended', async (t) => {
    const ended = await createLimited(target, access, ['a']);
    await call(target, 'DELETE /api/auth', { token: ended.token });
    for (const [line, bearer] of [
      ['GET /api/auth/verify', token],
      ['POST /api/auth/verify/below?demand_acr=mfa', token],
      ['GET /api/auth/verify?audience=orders', forOrders.token],
      ['GET /api/auth/audiences/orders/verify', forOrders.token],
      ['GET /api/user', token],
      ['GET /api/user', ended.token],
      ['POST /api/auth/llt', token],
      ['DELETE /api/user/tokens', token],
      [`DELETE /api/auth/llt/${id}`, token],
    ] as const) {
      const response = await call(target, line, { token: bearer });
      refused(t, response, 403, 'insufficient_scope');
      t.equal(response.headers['www-authenticate'], 'Bearer error="insufficient_scope"', line);
      t.match(response.json(), { reason: 'scope' });
    }
    for (const [line, bearer] of [
      ['GET /api/auth/refresh', token],
      ['GET /api/auth/verify', forOrders.token],
      ['GET /api/user', forOrders.token],
      ['POST /api/auth/llt', forOrders.token],
      ['GET /api/auth/verify?audience=orders', token],
      ['GET /api/auth/verify?audience=orders&audience=orders', forOrders.token],
    ] as const)
      refused(t, await call(target, line, { token: bearer }), 401, 'invalid_token');
  });
});

onAStore('a scope gives its user no role', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const manager = await aRegisteredService(databaseUrl, 'manager', ['users.write', 'introspect', 'limited']);
  const { access_token: access, user } = await signUp(target);
  const { token } = await createLimited(target, access, ['admin']);
  const check = async () => [
    (await call(target, 'GET /api/auth/scopes/admin/verify', { token })).headers['x-auth-roles'],
    (await introspect(target, manager, token)).json<{ roles: string[] }>().roles.join(),
  ];
  t.strictSame(await check(), ['', '']);
  const payload = { roles: ['editor'] };
  const changed = await call(target, `PATCH /api/users/${user.id}`, {
    headers: basic(manager),
    payload,
  });
  t.equal(changed.statusCode, 200, changed.body);
  t.strictSame(await check(), ['editor', 'editor'], 'the present ones, at once');
});

onAStore('introspection of a limited token', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const may = await aRegisteredService(databaseUrl, 'may', ['introspect', 'limited']);
  const not = await aRegisteredService(databaseUrl, 'not', ['introspect', 'revoke', 'revocations']);
  const ordersMay = await aRegisteredService(databaseUrl, 'orders', ['introspect', 'limited'], 'orders');
  const stockNot = await aRegisteredService(databaseUrl, 'stock', ['introspect'], 'stock');
  const { access_token: access, user } = await signUp(target);
  const { token } = await createLimited(target, access, ['orders:read', 'billing']);
  const forOrders = (await createLimited(target, access, ['a'], { audience: 'orders' })).token;
  const forStock = (await createLimited(target, access, ['a'], { audience: 'stock' })).token;
  const INACTIVE = '{"active":false}';

  await t.test(
    'answers only to a client with the right, with the scopes and the present roles',
    async (t) => {
      for (const [client, each] of [
        [may, token],
        [ordersMay, forOrders],
      ] as const) {
        const response = await introspect(target, client, each);
        t.strictSame(response.json(), {
          ...claimsOf(each),
          active: true,
          token_type: 'Bearer',
          token_use: 'limited',
          username: user.username,
          roles: [],
        });
      }
      t.match((await introspect(target, may, token)).json(), {
        scope: 'orders:read billing',
        aud: 'latchkey#limited',
      });
      for (const [client, each] of [
        [not, token],
        [stockNot, forStock],
        [may, forOrders],
        [ordersMay, token],
        [ordersMay, forStock],
      ] as const)
        t.equal((await introspect(target, client, each)).body, INACTIVE);
    },
  );

  await t.test('says in every answer whether the client has the right', async (t) => {
    for (const each of [token, access, forOrders, 'x'])
      for (const [client, expected] of [
        [may, 'true'],
        [ordersMay, 'true'],
        [not, 'false'],
        [stockNot, 'false'],
      ] as const)
        t.equal((await introspect(target, client, each)).headers['x-latchkey-limited'], expected);
  });

  await t.test('is no use of the token without the right, and names the reason in the log', async (t) => {
    const { id, token: unused } = await createLimited(target, access, ['a']);
    const lastUse = async () =>
      (await call(target, 'GET /api/user', { token: access }))
        .json<{ tokens: { id: number; last_used_at: string | null }[] }>()
        .tokens.find((each) => each.id === id)?.last_used_at;
    await introspect(target, not, unused);
    t.equal(await lastUse(), null);
    await introspect(target, may, unused);
    t.type(await lastUse(), 'string');
  });

  await t.test('a right that a running service is given counts at once', async (t) => {
    const late = await aRegisteredService(databaseUrl, 'late', ['introspect']);
    t.equal((await introspect(target, late, token)).body, INACTIVE);
    await withRegistry(databaseUrl, (registry) => registry.allow('late', ['introspect', 'limited']));
    const response = await introspect(target, late, token);
    t.match(response.json(), { active: true, token_use: 'limited' });
    t.equal(response.headers['x-latchkey-limited'], 'true');
    t.strictSame(await workDone(t, () => introspect(target, late, token)), []);
  });

  await t.test('it is inactive once it has ended', async (t) => {
    await call(target, 'DELETE /api/auth', { token });
    t.equal((await introspect(target, may, token)).body, INACTIVE);
  });
});

onAStore('a limited token for an audience ends itself', async (t, env) => {
  const target = await buildTestApp(t, { env });
  await audienceClients(target.databaseUrl);
  const { access_token: access } = await signUp(target);
  const { token } = await createLimited(target, access, ['a'], { audience: 'orders' });
  const ask = () => call(target, 'GET /api/auth/audiences/orders/scopes/a/verify', { token });
  t.equal((await ask()).statusCode, 200);
  for (let i = 0; i < 2; i++) t.equal((await call(target, 'DELETE /api/auth', { token })).statusCode, 200);
  refused(t, await ask(), 401, 'invalid_token');
});
