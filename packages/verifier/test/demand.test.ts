import { createServer, type RequestListener } from 'node:http';
import express from 'express';
import fastify from 'fastify';
import { test, type Test } from 'tap';
import { authOf } from '../src/bearer.ts';
import { makeVerifier } from '../src/create-verifier.ts';
import { fastifyVerifier } from '../src/fastify-verifier.ts';
import { verifierMiddleware } from '../src/verifier-middleware.ts';
import { verifyRequest } from '../src/verify-request.ts';
import { bearer } from '../../../test/support/client.ts';
import { listen } from '../../../test/support/listen.ts';
import { activeAnswer, fakeLatchkey, longLived, ofService } from './fake-latchkey.ts';

const MFA = { acr: 'mfa' } as const;
const RECENT = { maxAge: 300 };
const AMR = ['pwd', 'otp', 'mfa'];

/** A verifier whose clock can be moved, and tokens whose session was opened just now. */
async function aWorld(t: Test) {
  const fake = await fakeLatchkey(t);
  const moved = { by: 0 };
  const options = {
    issuer: fake.url,
    audience: 'latchkey',
    client: fake.client,
    accept: ['access', 'llt', 'service'] as const,
  };
  const clock = { now: () => Date.now() + moved.by, monotonic: () => performance.now() };
  const verifier = makeVerifier(options, clock);
  t.teardown(() => verifier.close());
  await verifier.ready();
  fake.introspect = activeAnswer;
  const authTime = Math.floor(Date.now() / 1000);
  const plain = await fake.sign({ auth_time: authTime, exp: authTime + 3600 });
  const proven = await fake.sign({ auth_time: authTime, acr: 'mfa', amr: AMR, exp: authTime + 3600 });
  return { fake, verifier, moved, authTime, plain, proven };
}

test('a token passes only if its login was as is demanded', async (t) => {
  const { fake, verifier, moved, authTime, plain, proven } = await aWorld(t);
  const refused = { name: 'VerifierError', code: 'insufficient_user_authentication' };
  t.match(await verifier.verify(proven, { ...MFA, ...RECENT }), {
    tokenType: 'access',
    claims: { auth_time: authTime, acr: 'mfa', amr: AMR },
  });
  const later = await fake.sign({ auth_time: authTime, acr: 'phr', amr: ['pop', 'user', 'mfa'] });
  t.match(await verifier.verify(later, MFA), { claims: { acr: 'phr' } }, 'a passkey proves it too');
  t.match(await verifier.verify(later, { acr: 'phr' }), { claims: { acr: 'phr' } });
  await t.rejects(verifier.verify(proven, { acr: 'phr' }), {
    ...refused,
    reason: 'acr',
    expected: 'acr_values="phr"',
  });
  const other = await fake.sign({ auth_time: authTime, acr: 'other' });
  await t.rejects(verifier.verify(other, MFA), { code: 'insufficient_user_authentication', reason: 'acr' });
  t.match(await verifier.verify(plain, RECENT), { claims: { auth_time: authTime } });
  t.match(await verifier.verify(plain, { acr: undefined, maxAge: undefined }), { userId: 7 });
  await t.rejects(verifier.verify(plain, MFA), { ...refused, reason: 'acr', expected: 'acr_values="mfa"' });

  moved.by = 303_000;
  await verifier.verify(proven, { ...MFA, ...RECENT });
  moved.by = 306_000;
  await t.rejects(verifier.verify(proven, { ...MFA, ...RECENT }), {
    ...refused,
    reason: 'max_age',
    expected: 'acr_values="mfa", max_age="300"',
    found: String(authTime),
  });
  t.match(await verifier.verify(proven, MFA), { userId: 7 }, 'the token itself is good');
});

test('tokens that say nothing of a login meet no demand', async (t) => {
  const { fake, verifier } = await aWorld(t);
  const claims = { auth_time: Math.floor(Date.now() / 1000), acr: 'mfa', amr: AMR };
  const tokens = {
    'of 1.0': await fake.sign(),
    'long-lived': await fake.sign(...longLived(12)),
    // Latchkey never writes such claims there.
    'long-lived with claims': await fake.sign(...longLived(13, claims)),
    'of a service': await fake.sign(ofService('lkc_shop', 1, claims)),
  };
  fake.publishClients({ lkc_shop: 1 });
  for (const [name, token] of Object.entries(tokens)) {
    await verifier.verify(token);
    for (const demand of [MFA, RECENT])
      await t.rejects(verifier.verify(token, demand), { code: 'insufficient_user_authentication' }, name);
  }
  const limited = { aud: 'latchkey#limited', scope: 'a', gen: undefined, jti: '11', ...claims };
  const token = await fake.sign(limited, { typ: 'limited+jwt' });
  fake.introspect = () => ({ active: true, sid: 11, sub: '7', token_use: 'limited' });
  await verifier.verify(token, { scope: 'a' });
  await t.rejects(verifier.verify(token, { scope: 'a', ...MFA }), {
    code: 'insufficient_user_authentication',
    reason: 'acr',
  });
});

test('claims that Latchkey does not write are malformed', async (t) => {
  const { fake, verifier } = await aWorld(t);
  for (const claims of [{ auth_time: '7' }, { auth_time: 0 }, { acr: 7 }, { amr: 'mfa' }, { amr: [7] }])
    await t.rejects(
      fake.sign(claims).then((token) => verifier.verify(token)),
      { code: 'invalid_token', reason: 'malformed' },
      JSON.stringify(claims),
    );
});

test('what cannot be demanded is a mistake of the service, before the first request', async (t) => {
  const { verifier, proven } = await aWorld(t);
  const wrong: object[] = [{ acr: 'other' }, { acr: '' }, { acr: null }, { acr: ['mfa'] }];
  for (const maxAge of [0, -1, 1.5, NaN, Infinity, '300', null]) wrong.push({ maxAge });
  // Misspelt, they would demand nothing.
  wrong.push({ acr_values: 'mfa' }, { maxage: 300 }, { max_age: 300, acr: 'mfa' });
  for (const demand of wrong) {
    await t.rejects(verifier.verify(proven, demand as never), TypeError, JSON.stringify(demand));
    t.throws(() => verifierMiddleware(verifier, demand), TypeError);
    await t.rejects(
      verifyRequest(verifier, new Request('http://x/'), demand as never),
      TypeError,
      JSON.stringify(demand),
    );
    t.throws(() => {
      fastifyVerifier(fastify(), { verifier, ...demand }, () => undefined);
    }, TypeError);
  }
});

test('middleware, plugin and verifyRequest answer with the challenge', async (t) => {
  const { verifier, plain, proven } = await aWorld(t);
  const demand = { ...MFA, maxAge: 60 };
  const ofExpress = express();
  ofExpress.use('/admin', verifierMiddleware(verifier, demand));
  ofExpress.get('/admin', (request, response) => void response.json(authOf(request, verifier)));
  const ofFastify = fastify();
  await ofFastify.register(fastifyVerifier, { verifier, ...demand, logLevel: 'warn' });
  ofFastify.get('/admin', (request) => authOf(request, verifier));
  await ofFastify.ready();
  t.teardown(() => ofFastify.close());
  const routing: RequestListener = (request, response) => {
    ofFastify.routing(request, response);
  };
  const urls = [await listen(t, createServer(ofExpress)), await listen(t, createServer(routing))];
  const ask = [
    ...urls.map((url) => (token: string) => fetch(`${url}/admin`, { headers: bearer(token) })),
    async (token: string) => {
      const request = new Request('http://x/', { headers: bearer(token) });
      const { auth, response } = await verifyRequest(verifier, request, demand);
      return response ?? Response.json(auth);
    },
  ];
  for (const get of ask) {
    t.match(await (await get(proven)).json(), { userId: 7, claims: { acr: 'mfa' } });
    const refused = await get(plain);
    t.equal(refused.status, 401);
    t.equal(
      refused.headers.get('www-authenticate'),
      'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="60"',
    );
    t.match(await refused.json(), { status: 401, code: 'insufficient_user_authentication' });
    t.equal((await get('x.y.z')).headers.get('www-authenticate'), 'Bearer error="invalid_token"');
  }
});
