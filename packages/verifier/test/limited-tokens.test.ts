import { createServer, type RequestListener } from 'node:http';
import express from 'express';
import fastify from 'fastify';
import { test, type Test } from 'tap';
import { authOf } from '../src/bearer.ts';
import { createVerifier } from '../src/create-verifier.ts';
import { fastifyVerifier } from '../src/fastify-verifier.ts';
import type { TokenType } from '../src/verified-token.ts';
import type { VerifierError } from '../src/verifier-error.ts';
import { verifierMiddleware } from '../src/verifier-middleware.ts';
import { listen } from '../../../test/support/listen.ts';
import { until } from '../../../test/support/until.ts';
import { activeAnswer, fakeLatchkey, longLived } from './fake-latchkey.ts';

const READ = { scope: 'orders:read' };

/** A verifier, and limited tokens that Latchkey finds good. */
async function aWorld<Accepted extends TokenType>(t: Test, accept?: readonly Accepted[]) {
  const fake = await fakeLatchkey(t);
  const heard: VerifierError[] = [];
  const verifier = createVerifier({
    issuer: fake.url,
    audience: 'latchkey',
    client: fake.client,
    accept,
    onError: (error) => heard.push(error),
  });
  t.teardown(() => verifier.close());
  await verifier.ready();
  const claims = {
    aud: 'latchkey#limited',
    scope: 'orders:read billing',
    sid: 12,
    jti: '12',
    gen: undefined,
  };
  const sign = (changes: object = {}, header: object = {}) =>
    fake.sign({ ...claims, ...changes }, { typ: 'limited+jwt', ...header });
  const said = {
    active: true,
    sid: 12,
    sub: '7',
    token_use: 'limited',
    roles: ['editor'],
    email_verified: true,
  };
  fake.introspect = () => said;
  return { fake, verifier, sign, said, heard };
}

test('a limited token passes only where scopes are named and it has all of them', async (t) => {
  const { verifier, sign } = await aWorld(t);
  const token = await sign();
  const verified = await verifier.verify(token, READ);
  t.match(verified, {
    tokenType: 'limited',
    userId: 7,
    sid: 12,
    scopes: ['orders:read', 'billing'],
    roles: ['editor'],
    emailVerified: true,
    claims: { aud: 'latchkey#limited', scope: 'orders:read billing' },
  });
  t.ok(Object.isFrozen(verified.claims));
  for (const scope of [['orders:read'], ['billing', 'orders:read']])
    t.match(await verifier.verify(token, { scope }), { tokenType: 'limited' });
  const unscoped = {
    code: 'insufficient_scope',
    reason: 'scope',
    expected: undefined,
    found: 'orders:read billing',
    message: 'a limited token is good only where a scope is needed, and here none is',
  };
  // Also before it was found good, when it is not in the cache yet.
  for (const each of [token, await sign({ sid: 13, jti: '13' })]) {
    await t.rejects(verifier.verify(each), unscoped);
    await t.rejects(verifier.verify(each, {} as never), unscoped);
    await t.rejects(verifier.verify(each, { scope: undefined, acr: 'mfa' } as never), unscoped);
  }
  for (const scope of ['orders:write', 'orders', ['orders:read', 'orders:write']])
    await t.rejects(verifier.verify(token, { scope }), {
      code: 'insufficient_scope',
      reason: 'scope',
      expected: [scope].flat().join(' '),
      found: 'orders:read billing',
      message: /needed: expected orders.*, found orders:read billing$/,
    });
});

test('a scope that has not the form of one is a mistake of the service', async (t) => {
  const { verifier, sign } = await aWorld(t);
  const token = await sign();
  const many = Array.from({ length: 33 }, (_, i) => `s${i}`);
  for (const scope of [
    '',
    [],
    'orders:read billing',
    'Orders',
    ['a', 'a'],
    many,
    ['a', 7],
    null,
    {},
  ] as string[]) {
    await t.rejects(verifier.verify(token, { scope }), TypeError, JSON.stringify(scope));
    t.throws(() => verifierMiddleware(verifier, { scope }), TypeError);
    t.throws(() => {
      fastifyVerifier(fastify(), { verifier, scope }, () => undefined);
    }, TypeError);
  }
});

test('other tokens pass with scopes as they do without', async (t) => {
  const { fake, verifier, sign } = await aWorld(t);
  const token = await fake.sign();
  t.match(await verifier.verify(token, READ), { tokenType: 'access', sid: 11 });
  await t.rejects(verifier.verify(await fake.sign({}, { typ: 'rt+jwt' }), READ), {
    code: 'invalid_token',
    reason: 'type',
  });
  const { verifier: ofServices, sign: signOther } = await aWorld(t, ['service']);
  await t.rejects(ofServices.verify(await signOther()), {
    code: 'invalid_token',
    reason: 'type',
    expected: 'service',
  });
  t.match(await ofServices.verify(await signOther(), READ), { tokenType: 'limited' });
  t.equal((await verifier.verify(await sign(), READ)).tokenType, 'limited');
});

test('a limited token for another audience, or with claims that Latchkey does not issue', async (t) => {
  const { fake, verifier, sign } = await aWorld(t);
  for (const aud of ['latchkey', 'orders#limited', 'latchkey#limited#limited', ['latchkey#limited', 'x']])
    for (const verify of [
      () => sign({ aud }).then((token) => verifier.verify(token, READ)),
      () => sign({ aud }).then((token) => verifier.verify(token)),
    ])
      await t.rejects(verify(), { code: 'invalid_token', reason: 'audience' }, JSON.stringify(aud));
  for (const changes of [
    { scope: undefined },
    { scope: '' },
    { scope: ['orders:read'] },
    { scope: 'orders:read orders:read' },
    { scope: 'orders:read ' },
    { exp: undefined },
    { gen: 1 },
    { sid: undefined },
    { sub: 'lkc_x' },
  ])
    await t.rejects(
      verifier.verify(await sign(changes), READ),
      { code: 'invalid_token', reason: 'malformed' },
      JSON.stringify(changes),
    );
  for (const typ of ['at+jwt', 'llt+jwt'])
    for (const options of [undefined, READ]) {
      const token = await sign({}, { typ });
      const asked = options ? verifier.verify(token, options) : verifier.verify(token);
      await t.rejects(asked, { code: 'invalid_token', reason: 'audience' }, typ);
    }
  const stranger = await fakeLatchkey(t);
  const { privateKey } = await stranger.addKey();
  const forged = await fake.sign(
    { aud: 'latchkey#limited', scope: 'orders:read', gen: undefined },
    { typ: 'limited+jwt' },
    privateKey,
  );
  const expired = await sign({ exp: Math.floor(Date.now() / 1000) - 60 });
  for (const [bad, reason] of [
    [forged, 'signature'],
    [expired, 'expired'],
  ] as const) {
    await t.rejects(verifier.verify(bad, READ), { code: 'invalid_token', reason });
    await t.rejects(verifier.verify(bad), { code: 'invalid_token', reason }, 'without a scope too');
  }
});

test('without a scope nothing is asked, and neither the right nor an outage matters', async (t) => {
  const { fake, verifier, sign } = await aWorld(t);
  fake.mayLimited = false;
  fake.introspect = () => ({ active: false });
  const token = await sign();
  await t.rejects(verifier.verify(token), { code: 'insufficient_scope' });
  t.strictSame(
    fake.introspected.filter((each) => each === token),
    [],
    'also about one that has ended',
  );
  fake.publish('revoked', { token: 12, user: 7 });
  await until(() =>
    verifier.verify(token).then(
      () => false,
      (error: unknown) => (error as VerifierError).reason === 'revoked',
    ),
  );
});

test('it is asked about once, and the feed tells of its end', async (t) => {
  const { fake, verifier, sign } = await aWorld(t);
  const token = await sign();
  for (let i = 0; i < 3; i++) await verifier.verify(token, READ);
  t.equal(fake.introspected.filter((each) => each === token).length, 1);
  fake.publish('revoked', { token: 12, user: 7 });
  await until(() =>
    verifier.verify(token, READ).then(
      () => false,
      (error: unknown) => (error as VerifierError).reason === 'revoked',
    ),
  );
  // It has ended: that it lacks a scope does not matter any more.
  await t.rejects(verifier.verify(token, { scope: 'orders:write' }), { code: 'invalid_token' });
});

test('roles and address are the user’s, whatever the token says', async (t) => {
  const { fake, verifier, sign, said } = await aWorld(t);
  fake.introspect = () => ({ ...said, roles: [], email_verified: undefined });
  const token = await sign({ scope: 'admin', roles: ['admin'], email_verified: true });
  t.match(await verifier.verify(token, { scope: 'admin' }), { roles: [], emailVerified: false });
});

test('a client without the right is a mistake in the configuration, and no refused token', async (t) => {
  for (const mayLimited of [false, null]) {
    const { fake, verifier, sign, heard } = await aWorld(t);
    fake.mayLimited = mayLimited;
    const llt = await fake.sign(...longLived(13));
    fake.introspect = (token) => (token === llt ? activeAnswer(llt) : { active: false });
    const mistake = { code: 'unavailable', reason: 'configuration', option: 'client', message: /`limited`/ };
    for (let i = 0; i < 2; i++) {
      await t.rejects(verifier.verify(await sign(), READ), mistake);
      t.match(await verifier.verify(llt), { sid: 13 }, 'another answer mends nothing');
    }
    t.match(heard, [mistake], 'the service hears of it once');
    fake.mayLimited = true;
    await t.rejects(verifier.verify(await sign(), READ), { code: 'invalid_token', reason: 'inactive' });
  }
});

async function listening(t: Test, listener: RequestListener) {
  const url = await listen(t, createServer(listener));
  return (path: string, token: string) =>
    fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
}

test('middleware and plugin take the option, and a handler has to expect such a token', async (t) => {
  const { fake, verifier, sign } = await aWorld(t);
  const [token, access] = [await sign(), await fake.sign()];
  const app = express();
  app.use('/plain', verifierMiddleware(verifier));
  app.use(['/orders', '/overlooked'], verifierMiddleware(verifier, READ));
  app.get('/plain', (request, response) => void response.json(authOf(request)));
  app.get('/orders', (request, response) => void response.json(authOf(request, { limited: true })));
  app.get('/overlooked', (request, response) => void response.json(authOf(request)));
  app.use((error: Error, _request: unknown, response: express.Response, _next: unknown) => {
    response.status(500).json({ message: error.message });
  });
  const other = fastify();
  other.register((scope, _options, done) => {
    scope.register(fastifyVerifier, { verifier, ...READ });
    scope.get('/orders', (request) => authOf(request, { accept: verifier.accept, limited: true }));
    scope.get('/overlooked', (request) => authOf(request, verifier));
    done();
  });
  other.register((scope, _options, done) => {
    scope.register(fastifyVerifier, { verifier });
    scope.get('/plain', (request) => authOf(request));
    done();
  });
  await other.ready();
  t.teardown(() => other.close());
  const routing: RequestListener = (request, response) => {
    other.routing(request, response);
  };
  for (const get of [await listening(t, app), await listening(t, routing)]) {
    t.match(await (await get('/orders', token)).json(), {
      tokenType: 'limited',
      scopes: ['orders:read', 'billing'],
    });
    t.match(await (await get('/orders', access)).json(), { tokenType: 'access' });
    const overlooked = await get('/overlooked', token);
    t.equal(overlooked.status, 500);
    t.match(await overlooked.json(), { message: /limited/ });
    t.equal((await get('/overlooked', access)).status, 200);
    const unscoped = await get('/plain', token);
    t.equal(unscoped.status, 403);
    t.equal(unscoped.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"');
    t.match(await unscoped.json(), { code: 'insufficient_scope', status: 403 });

    const less = await get('/orders', await sign({ scope: 'billing' }));
    t.equal(less.status, 403);
    t.equal(less.headers.get('www-authenticate'), 'Bearer error="insufficient_scope", scope="orders:read"');
    t.equal(less.headers.get('retry-after'), null);
    t.match(less.headers.get('content-type'), /^application\/problem\+json/);
    t.match(await less.json(), { code: 'insufficient_scope', status: 403 });
  }
});
