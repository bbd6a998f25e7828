import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import { test, type Test } from 'tap';
import type { PublicJwks } from '../../src/domain/services/assertion.ts';
import { RIGHTS, callRight } from '../../src/domain/rights.ts';
import { JWT_BEARER } from '../../src/http/auth/token.ts';
import { buildTestApp } from '../support/app.ts';
import { ACCESS_TOKEN, exchanged, exchangeForm, TOKEN_EXCHANGE, verifyFor } from '../support/audiences.ts';
import { bearer, call, claimsOf, headerOf } from '../support/client.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { KEYS, withKeys } from '../support/keys.ts';
import { refusedForOAuth } from '../support/problem.ts';
import { aRegisteredService, introspect, postForm, withRegistry } from '../support/registered-service.ts';
import { askServiceToken, postAsService, serviceToken } from '../support/service-tokens.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import { signerOf } from './forgeries.ts';
import { bodyOf, headersOf, inParallel, operationsWith, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, recordOf, type Target } from './target.ts';

const ISSUER = 'https://auth.example';

/** The target, where `shop` may do everything and call `orders`. */
async function aWorld(t: Test) {
  const target = await aTarget(t, { ISSUER });
  const shop = await aRegisteredService(target.databaseUrl, 'shop', [...RIGHTS, callRight('orders')]);
  const own = await serviceToken(target, shop, ISSUER);
  const forOrders = await serviceToken(target, shop, 'orders');
  return { target, shop, own, forOrders };
}

/** A bearer that asks for an exchange is its own subject token. */
function withSubject(operation: Attacked, token: string): Attacked {
  if (operation.name !== 'getToken') return operation;
  return { ...operation, body: { ...operation.body, subject_token: token } };
}

async function present(target: Target, operation: Attacked, token: string) {
  const { method, path } = operation;
  const body = method === 'GET' ? undefined : bodyOf(operation);
  return target.inject({
    method,
    url: path,
    headers: { ...headersOf(operation), ...bearer(token) },
    ...(body !== undefined && { payload: body }),
  });
}

/** Presents each token at each operation of a scheme. @returns the answers that are not 401. */
async function presentEverywhere(target: Target, scheme: string, tokens: Record<string, string>) {
  const taken: string[] = [];
  const attempts = Object.entries(tokens).flatMap(([what, token]) =>
    operationsWith(scheme).map((operation) => ({ what, token, operation })),
  );
  await inParallel(attempts, async ({ what, token, operation }) => {
    const { statusCode, body } = await present(target, withSubject(operation, token), token);
    // As a subject token it is refused with 400 (RFC 8693, section 2.2.2).
    const isSubject = operation.name === 'getToken' && body.includes('invalid_subject_token');
    if (statusCode !== 401 && !isSubject)
      taken.push(`${what}: ${operation.name} answers ${statusCode} ${body}`);
  });
  return taken;
}

test('no operation takes a service token, or one for another audience, for a user’s', async (t) => {
  const { target, own, forOrders } = await aWorld(t);
  const before = await recordOf(target);
  const tokens = {
    'for ISSUER': own,
    'for an audience': forOrders,
    // One of a user for another audience is no token for ours either.
    exchanged: await exchanged(target, target.pair.access_token),
  };
  for (const scheme of ['bearerAuth', 'bearerRefreshToken'])
    t.strictSame(await presentEverywhere(target, scheme, tokens), [], scheme);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  await assertStillGood(t, target);
});

test('no operation for services takes a token of a user, or of a service for another audience', async (t) => {
  const { target, forOrders } = await aWorld(t);
  const { pair, llt } = target;
  const before = await recordOf(target);
  const tokens = {
    access: pair.access_token,
    refresh: pair.refresh_token,
    llt: llt.longlived_token,
    exchanged: await exchanged(target, pair.access_token),
    'a service’s for orders': forOrders,
  };
  const operations = operationsWith('serviceToken').filter(({ name }) => name !== 'getToken');
  const attempts = Object.values(tokens).flatMap((token) => operations.map((each) => ({ each, token })));
  await inParallel(attempts, async ({ each, token }) => {
    t.equal((await present(target, each, token)).statusCode, 401, each.name);
  });
  const form = exchangeForm(pair.access_token, 'orders');
  for (const [what, token] of Object.entries(tokens).slice(1)) {
    const { statusCode } = await postAsService(target, '/api/auth/token', token, form);
    t.ok([400, 401].includes(statusCode), `${what} exchanges the token of a user`);
  }
  for (const token of Object.values(tokens)) {
    const renewal = { grant_type: 'client_credentials', audience: ISSUER };
    refusedForOAuth(t, await postAsService(target, '/api/auth/token', token, renewal), 401, 'invalid_client');
  }
  t.strictSame(await recordOf(target), before, 'nothing was changed');
});

test('a service token begets no other one, neither as a credential nor as a subject', async (t) => {
  const { target, shop, own, forOrders } = await aWorld(t);
  // The command refuses this pair, if its environment names ISSUER.
  const jwks = (await call(target, 'GET /.well-known/jwks.json')).json<PublicJwks>();
  await withRegistry(target.databaseUrl, (registry) =>
    registry.trust('shop', { issuer: ISSUER, subject: shop.serviceId }, jwks),
  );
  for (const audience of [ISSUER, 'orders'])
    for (const token of [own, forOrders]) {
      const renewed = await askServiceToken(target, null, audience, {}, bearer(token));
      refusedForOAuth(t, renewed, 401, 'invalid_client');
      const asAssertion = { client_assertion_type: JWT_BEARER, client_assertion: token };
      const asserted = await askServiceToken(target, null, audience, asAssertion);
      refusedForOAuth(t, asserted, 401, 'invalid_client');
    }
  for (const subject of [own, forOrders])
    for (const by of [shop, null]) {
      const form = { subject_token: subject, subject_token_type: ACCESS_TOKEN, grant_type: TOKEN_EXCHANGE };
      const headers: Record<string, string> = by ? {} : bearer(own);
      const answer = await postForm(target, '/api/auth/token', by, { ...form, audience: 'orders' }, headers);
      refusedForOAuth(t, answer, 400, 'invalid_subject_token');
    }
});

test('a consumer of AUDIENCE that has only the public keys refuses it', async (t) => {
  const { target, own, forOrders } = await aWorld(t);
  const keys = createLocalJWKSet((await call(target, 'GET /.well-known/jwks.json')).json<JSONWebKeySet>());
  const verify = (token: string) => jwtVerify(token, keys, { issuer: ISSUER, audience: 'latchkey' });
  await t.resolves(verify(target.pair.access_token));
  for (const token of [own, forOrders])
    await t.rejects(verify(token), { code: 'ERR_JWT_CLAIM_VALIDATION_FAILED' });
});

test('claims that no service token has, even with a valid signature', async (t) => {
  const { target, own, forOrders } = await aWorld(t);
  const { databaseUrl, client } = target;
  await withRegistry(databaseUrl, (registry) => registry.remove('orders'));
  const orders = await aRegisteredService(databaseUrl, 'orders', ['introspect'], 'orders');
  const [{ sub: user, sid, gen, jti }, now] = [
    claimsOf(target.pair.access_token),
    Math.floor(Date.now() / 1000),
  ];
  const changes: Record<string, object> = {
    ...Object.fromEntries(
      [0, -1, 2, 2 ** 53, 1.5, '1', '', null, true, [1], {}].map((client_version) => [
        `client_version ${JSON.stringify(client_version)}`,
        { client_version },
      ]),
    ),
    'no client_version': { client_version: undefined },
    'a user as sub': { sub: user },
    'a user': { sub: user, client_id: user },
    'another client as sub': { sub: client.serviceId },
    'another client as client_id': { client_id: client.serviceId },
    'no client_id': { client_id: undefined },
    'an unknown client': { sub: `lkc_${'x'.repeat(22)}`, client_id: `lkc_${'x'.repeat(22)}` },
    'the session of a user': { sid },
    'the generation of a user': { gen },
    'sub, sid and gen of a user': { sub: user, sid, gen },
    'the jti of a user': { jti },
    'no exp': { exp: undefined },
    expired: { exp: now - 60 },
    'two audiences': { aud: ['orders', ISSUER] },
    'a list of one': { aud: ['orders'] },
    'another issuer': { iss: 'https://evil.example' },
  };
  const forge = (token: string, change: object, pem = target.pem) =>
    signerOf(pem)(headerOf(token), { ...claimsOf(token), ...change });
  const answers = async (forIssuer: string, forAudience: string) => [
    (await call(target, 'GET /api/users?limit=1', { token: forIssuer })).statusCode,
    (await call(target, 'GET /api/auth/verify?audience=orders', { token: forAudience })).statusCode,
    (await introspect(target, orders, forAudience)).json<{ active: boolean }>().active,
  ];
  t.strictSame(
    await answers(forge(own, {}), forge(forOrders, {})),
    [200, 200, true],
    'the forger signs as we do',
  );
  for (const [what, change] of Object.entries(changes))
    t.strictSame(await answers(forge(own, change), forge(forOrders, change)), [401, 401, false], what);
  const key = KEYS.ES256();
  t.strictSame(
    await answers(forge(own, {}, key), forge(forOrders, {}, key)),
    [401, 401, false],
    'another key',
  );
  const typed = (typ: string, token: string) =>
    signerOf(target.pem)({ ...headerOf(token), typ }, claimsOf(token));
  for (const typ of ['llt+jwt', 'rt+jwt', 'JWT'])
    t.strictSame(await answers(typed(typ, own), typed(typ, forOrders)), [401, 401, false], typ);
});

test('an assertion of one client opens no other one', async (t) => {
  const { target, shop } = await aWorld(t);
  const spy = await aRegisteredService(target.databaseUrl, 'spy', []);
  const [ours, theirs] = [
    await fakeIssuer(t, { audience: ISSUER }),
    await fakeIssuer(t, { audience: ISSUER }),
  ];
  await withRegistry(target.databaseUrl, async (registry) => {
    await registry.trust('shop', { issuer: ours.url, subject: SUBJECT }, null);
    await registry.trust('spy', { issuer: theirs.url, subject: 'spy' }, null);
    await registry.trust('spy', { issuer: ours.url, subject: 'spy' }, null);
  });
  const ask = (client_assertion: string, client_id?: string) =>
    askServiceToken(target, null, ISSUER, {
      client_assertion_type: JWT_BEARER,
      client_assertion,
      ...(client_id !== undefined && { client_id }),
    });
  for (const [signed, { serviceId }] of [
    [await ours.sign(), shop],
    [await theirs.sign({ sub: 'spy' }), spy],
    [await ours.sign({ sub: 'spy' }), spy],
  ] as const) {
    const response = await ask(signed);
    t.equal(claimsOf(response.json<{ access_token: string }>().access_token).sub, serviceId);
  }
  const [key] = ours.published;
  // Their issuer publishes its own key under the id of ours, and ours itself.
  Object.assign(theirs.published[0] ?? {}, { kid: key?.kid });
  theirs.published.push({ ...key, kid: 'stolen' });
  const iss = ours.url;
  for (const [what, signed, serviceId] of [
    ['the id of another client', await ours.sign({ sub: 'spy' }), shop.serviceId],
    ['the subject of another', await theirs.sign()],
    ['the issuer of another', await theirs.sign({ iss })],
    ['and its key id', await theirs.sign({ iss }, { kid: key?.kid })],
    ['a subject in a list', await ours.sign({ sub: [SUBJECT] })],
    ['a client’s id as subject', await theirs.sign({ sub: shop.serviceId })],
    ['a client’s id as issuer', await theirs.sign({ iss: shop.serviceId, sub: shop.serviceId })],
  ] as [string, string, string?][]) {
    const response = await ask(signed, serviceId);
    t.comment(what);
    refusedForOAuth(t, response, 401, 'invalid_client');
  }
});

test('after end-tokens, a token of a replica that has not loaded it yet', async (t) => {
  const { target: replica, env } = await withKeys(t, 'ES256', 0, { ISSUER });
  const { databaseUrl } = replica;
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  const shop = await aRegisteredService(databaseUrl, 'shop', ['call:orders']);
  // It does not load its clients on its own.
  const stale = await buildTestApp(t, { env, databaseUrl });
  await serviceToken(stale, shop);
  await withRegistry(databaseUrl, (registry) => registry.endTokens('shop'));
  await until(async () => claimsOf(await serviceToken(replica, shop)).client_version === 2);
  const [late, newer] = [await serviceToken(stale, shop), await serviceToken(replica, shop)];
  const status = async (at: typeof replica, token: string) => (await verifyFor(at, token))[0];
  t.match(claimsOf(late), { client_version: 1 });
  t.equal(await status(replica, late), 401, 'it ends with those before it');
  t.equal(await status(replica, newer), 200);
  t.equal(await status(stale, newer), 200);
  t.equal(await status(stale, late), 401, 'the replica has learned');
});
