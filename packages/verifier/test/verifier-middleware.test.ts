import { createServer, type RequestListener, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import express from 'express';
import { test, type Test } from 'tap';
import { authOf } from '../src/bearer.ts';
import { createVerifier, type Verifier } from '../src/create-verifier.ts';
import type { UserToken } from '../src/verified-token.ts';
import { verifierMiddleware } from '../src/verifier-middleware.ts';
import { listen } from '../../../test/support/listen.ts';
import { fakeLatchkey } from './fake-latchkey.ts';
import { until } from '../../../test/support/until.ts';

async function aVerifier(t: Test) {
  const fake = await fakeLatchkey(t);
  const verifier = createVerifier({ issuer: fake.url, audience: 'latchkey', client: fake.client });
  t.teardown(() => verifier.close());
  return { fake, verifier };
}

async function listening(t: Test, listener: RequestListener) {
  const server: Server = createServer(listener);
  const url = await listen(t, server);
  return (path: string, token?: string, more: Record<string, string> = {}) =>
    fetch(url + path, token === undefined ? {} : { headers: { authorization: `Bearer ${token}`, ...more } });
}

test('protects Express’s routes', async (t) => {
  const { fake, verifier } = await aVerifier(t);
  await verifier.ready();
  const app = express();
  app.get('/public', (_request, response) => void response.json('public'));
  app.use('/orders', verifierMiddleware(verifier));
  app.get('/orders', (request, response) => void response.json(authOf(request)));
  const get = await listening(t, app);

  const token = await fake.sign();
  const good = await get('/orders', token);
  t.equal(good.status, 200);
  t.match(await good.json(), { userId: 7, sid: 11, tokenType: 'access' });
  t.equal((await get('/public')).status, 200);

  const missing = await get('/orders');
  t.equal(missing.status, 401);
  t.equal(missing.headers.get('www-authenticate'), 'Bearer');
  t.match(missing.headers.get('content-type'), /^application\/problem\+json/);
  t.match(await missing.json(), { code: 'token_missing' });

  fake.publish('revoked', { token: 11, user: 7 });
  await until(async () => (await get('/orders', token)).status === 401);
  t.equal((await get('/orders', token)).headers.get('www-authenticate'), 'Bearer error="invalid_token"');
});

test('tells the service why it refused a token, and the client only that it did', async (t) => {
  const { fake, verifier } = await aVerifier(t);
  await verifier.ready();
  const heard: (string | undefined)[] = [];
  const guard = verifierMiddleware(verifier, {
    onRefused: ({ reason, expected, found }, { url }, id) => heard.push(reason, expected, found, url, id),
  });
  const get = await listening(t, express().use(guard));
  const response = await get('/orders', await fake.sign({ aud: 'billing' }), { 'x-request-id': 'r-1' });
  t.strictSame(heard, ['audience', 'latchkey', 'billing', '/orders', 'r-1']);
  const body = await response.text();
  t.notMatch(body, /audience|billing/);
  t.match(JSON.parse(body), { request_id: 'r-1' });
});

test('needs nothing of Express, and passes a fault to the error handler', async (t) => {
  const faulty: Pick<Verifier, 'verify'> = {
    verify: () => Promise.reject<UserToken>(new RangeError('a fault')),
  };
  const middleware = verifierMiddleware(faulty);
  const get = await listening(t, (request, response) => {
    middleware(request, response, (error) => response.writeHead(500).end((error as Error).message));
  });
  const response = await get('/', 'token');
  t.equal(response.status, 500);
  t.equal(await response.text(), 'a fault');
});

test('leaves a response alone that was sent meanwhile', async (t) => {
  const { verifier } = await aVerifier(t);
  await verifier.ready();
  const faults: unknown[] = [];
  process.on('unhandledRejection', (error) => faults.push(error));
  const guard = verifierMiddleware(verifier);
  let guarded = 0;
  const get = await listening(t, (request, response) => {
    // Like a timeout of the service.
    response.writeHead(503).end();
    guard(request, response, () => guarded++);
  });
  t.equal((await get('/', 'no token at all')).status, 503);
  await sleep(50);
  t.strictSame(faults, []);
  t.equal(guarded, 0);
});
