import { createServer, type RequestListener } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import express, { type ErrorRequestHandler } from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { test, type Test } from 'tap';
import { createTokens, type Tokens } from '../src/create-tokens.ts';
import { createVerifier, type Verifier } from '../src/create-verifier.ts';
import { fastifyVerifier } from '../src/fastify-verifier.ts';
import { verifierMiddleware } from '../src/verifier-middleware.ts';
import { refusalOf, verifyRequest } from '../src/verify-request.ts';
import { listen } from '../../../test/support/listen.ts';
import { until } from '../../../test/support/until.ts';
import { fakeLatchkey } from './fake-latchkey.ts';

interface Parts {
  verifier: Verifier;
  tokens: Tokens;
  /** What turns an error into a response; null leaves it to the framework. */
  refusal: typeof refusalOf | null;
}

/**
 * A gateway that exchanges its users' tokens, and below `/checked` has the verifier before that. It answers with the token
 * that it would send on.
 */
const GATEWAYS: Record<string, (t: Test, parts: Parts) => Promise<string>> = {
  async Express(t, { verifier, tokens, refusal }) {
    const app = express().set('env', 'test');
    app.use('/checked', verifierMiddleware(verifier));
    app.use(async ({ headers }, response) => {
      response.send(await exchange(tokens, headers.authorization));
    });
    const answer: ErrorRequestHandler = async (error, _request, response, next) => {
      if (!refusal) {
        next(error);
        return;
      }
      const refused = refusal(error);
      response.writeHead(refused.status, Object.fromEntries(refused.headers)).end(await refused.text());
    };
    return serve(t, app.use(answer));
  },
  async Fastify(t, { verifier, tokens, refusal }) {
    const app = Fastify();
    t.teardown(() => app.close());
    if (refusal) app.setErrorHandler((error, _request, reply) => reply.send(refusal(error)));
    app.get('/', ({ headers }) => exchange(tokens, headers.authorization));
    await app.register(async (checked) => {
      await checked.register(fastifyVerifier, { verifier });
      checked.get('/checked', ({ headers }) => exchange(tokens, headers.authorization));
    });
    return app.listen({ port: 0, host: '127.0.0.1' });
  },
  async Hono(t, { verifier, tokens, refusal }) {
    const app = new Hono();
    app.use('/checked', async (c, next) => (await verifyRequest(verifier, c.req.raw)).response ?? next());
    app.get('*', async (c) => c.text(await exchange(tokens, c.req.header('authorization'))));
    if (refusal) app.onError(refusal);
    const listener = getRequestListener(app.fetch);
    return serve(t, (request, response) => void listener(request, response));
  },
};

function exchange(tokens: Tokens, authorization = ''): Promise<string> {
  return tokens.exchange(authorization.replace(/^Bearer /, ''), 'orders');
}

function serve(t: Test, listener: RequestListener): Promise<string> {
  return listen(t, createServer(listener));
}

async function aGateway(t: Test, name: string, refusal: Parts['refusal'] = refusalOf) {
  const fake = await fakeLatchkey(t);
  const options = { issuer: fake.url, client: fake.client };
  const verifier = createVerifier({ ...options, audience: 'latchkey', onError: () => undefined });
  t.teardown(() => verifier.close());
  const tokens = createTokens(options);
  t.teardown(() => tokens.close());
  await verifier.ready();
  const url = await GATEWAYS[name]?.(t, { verifier, tokens, refusal });
  const get = (path: string, token?: string) =>
    fetch(`${url}${path}`, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });
  return { fake, get };
}

for (const name of Object.keys(GATEWAYS)) {
  test(`a gateway in ${name} answers 401 after a logout, and 503 for what is not the user’s fault`, async (t) => {
    const { fake, get } = await aGateway(t, name);
    const token = await fake.sign();
    const good = await Promise.all(Array.from({ length: 100 }, () => get('/checked', token)));
    t.ok(good.every(({ status }) => status === 200));
    t.equal(fake.tokenRequests.length, 1, 'a hundred requests are one exchange');

    const other = (sid: number) => fake.sign({ sid });
    const expect = async (
      response: Response,
      status: number,
      header: string,
      value: string,
      code: string,
    ) => {
      t.equal(response.status, status);
      t.equal(response.headers.get(header), value);
      t.match(response.headers.get('content-type'), /^application\/problem\+json/);
      t.match(await response.json(), { code, status });
    };
    const invalid = [401, 'www-authenticate', 'Bearer error="invalid_token"', 'invalid_token'] as const;
    const away = [503, 'retry-after', '1', 'unavailable'] as const;

    for (const refusal of ['right_missing', 'invalid_target', 'invalid_client', 'unavailable'] as const) {
      fake.refuseToken = () => refusal;
      await expect(await get('/', await other(12)), ...away);
    }
    fake.refuseToken = () => 'invalid_subject_token';
    await expect(await get('/', await other(13)), ...invalid);
    await expect(await get('/', 'x'.repeat(9000)), ...invalid);
    await expect(await get('/'), 401, 'www-authenticate', 'Bearer', 'token_missing');

    fake.publish('revoked', { token: 11, user: 7 });
    await until(async () => (await get('/checked', token)).status === 401);
    await expect(await get('/checked', token), ...invalid);

    await fake.stop();
    await expect(await get('/', await other(14)), ...away);
    await expect(await get('/checked', await other(14)), ...away);
  });

  test(`what ${name} does with an error that nobody answers has nothing of Latchkey’s status`, async (t) => {
    const { fake, get } = await aGateway(t, name, null);
    for (const refusal of ['right_missing', 'invalid_client'] as const) {
      fake.refuseToken = () => refusal;
      t.equal((await get('/', await fake.sign())).status, 500, refusal);
    }
  });
}
