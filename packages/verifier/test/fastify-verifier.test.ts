import Fastify from 'fastify';
import { test, type Test } from 'tap';
import { createVerifier } from '../src/create-verifier.ts';
import { authOf } from '../src/bearer.ts';
import { fastifyVerifier } from '../src/fastify-verifier.ts';
import { fakeLatchkey } from './fake-latchkey.ts';
import { until } from '../../../test/support/until.ts';

/** A service with protected and public routes, over real HTTP. */
async function aService(t: Test) {
  const fake = await fakeLatchkey(t);
  const verifier = createVerifier({
    issuer: fake.url,
    audience: 'latchkey',
    client: fake.client,
    whenStale: 'refuse',
  });
  const app = Fastify();
  app.addHook('onClose', () => verifier.close());
  app.get('/public', (request) => ({ auth: (request as { auth?: unknown }).auth ?? 'none' }));
  await app.register(async (api) => {
    await api.register(fastifyVerifier, { verifier });
    api.get('/orders', (request) => authOf(request));
    await api.register(async (inner) => {
      await inner.register(fastifyVerifier, { verifier });
      inner.get('/inner', (request) => authOf(request));
    });
  });
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  t.teardown(() => app.close());
  const get = (path: string, token?: string) =>
    fetch(url + path, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });
  return { fake, verifier, get };
}

test('the routes of its context need a valid token, and know its owner', async (t) => {
  const { fake, verifier, get } = await aService(t);
  const token = await fake.sign();
  await verifier.ready();
  for (const path of ['/orders', '/inner']) {
    const response = await get(path, token);
    t.equal(response.status, 200);
    t.match(await response.json(), { userId: 7, sid: 11, tokenType: 'access', claims: { sub: '7' } });
  }
  t.match(await (await get('/public')).json(), { auth: 'none' });
});

test('answers as Latchkey does', async (t) => {
  const { fake, verifier, get } = await aService(t);
  await verifier.ready();
  const missing = await get('/orders');
  t.equal(missing.status, 401);
  t.equal(missing.headers.get('www-authenticate'), 'Bearer');
  t.match(missing.headers.get('content-type'), /^application\/problem\+json/);
  t.match(await missing.json(), { code: 'token_missing', status: 401 });
  const bad = await get('/inner', 'bad');
  t.equal(bad.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
  const token = await fake.sign();
  fake.publish('revoked', { token: 11, user: 7 });
  await until(async () => (await get('/orders', token)).status === 401);
});

test('tells the service why it refused a token, and the client only that it did', async (t) => {
  const fake = await fakeLatchkey(t);
  const verifier = createVerifier({ issuer: fake.url, audience: 'latchkey', client: fake.client });
  const heard: unknown[] = [];
  const app = Fastify();
  app.addHook('onClose', () => verifier.close());
  t.teardown(() => app.close());
  await app.register(fastifyVerifier, {
    verifier,
    onRefused: ({ reason, found }, { method, url }, id) => heard.push(reason, found, method, url, id),
  });
  app.get('/orders', () => 'orders');
  const headers = { authorization: `Bearer ${await fake.sign({ aud: 'billing' })}`, 'x-request-id': 'r-1' };
  const { statusCode, body } = await app.inject({ url: '/orders', headers });
  t.equal(statusCode, 401);
  t.notMatch(body, /audience|billing/);
  t.strictSame(heard, ['audience', 'billing', 'GET', '/orders', 'r-1']);
  t.match(JSON.parse(body), { request_id: 'r-1' });
});
