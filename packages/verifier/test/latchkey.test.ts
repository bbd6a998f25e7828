import { createServer } from 'node:http';
import { createServer as createTcpServer } from 'node:net';
import { test } from 'tap';
import { SYSTEM_CLOCK } from '../src/clock.ts';
import { makeLatchkey } from '../src/latchkey.ts';
import { listen } from '../../../test/support/listen.ts';
import { activeAnswer, fakeLatchkey, type FakeLatchkey } from './fake-latchkey.ts';

const METADATA = '/.well-known/oauth-authorization-server';

const READER = 'reader-0123456789';

type Settings = Parameters<typeof makeLatchkey>[0]['settings'];

const at = ({ url, client }: FakeLatchkey, overrides: Partial<Settings> = {}) =>
  makeLatchkey({
    settings: { issuer: url, audience: 'latchkey', url, client, fetch, ...overrides },
    reader: { id: READER, about: () => ({ instance: 'orders-1' }) },
    clock: SYSTEM_CLOCK,
    onRenew: () => undefined,
  });

test('reads the endpoints from the metadata once', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  t.strictSame(await latchkey.keys(), { keys: fake.published });
  fake.introspect = activeAnswer;
  const token = await fake.sign();
  t.match(await latchkey.introspect(token), { active: true, sid: 11 });
  t.strictSame(fake.requests, [
    'GET /.well-known/oauth-authorization-server',
    'GET /.well-known/jwks.json',
    'POST /api/auth/introspect',
  ]);
});

test('reads them again after they moved', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  await latchkey.keys();
  fake.refusals.set('/.well-known/jwks.json', 404);
  await t.rejects(latchkey.keys(), { code: 'unavailable', answered: 404 });
  fake.refusals.clear();
  await latchkey.keys();
  t.equal(fake.requests.filter((line) => line.endsWith('oauth-authorization-server')).length, 2);
});

test('calls them at the configured URL, not at the issuer', async (t) => {
  const fake = await fakeLatchkey(t);
  const issuer = 'https://id.example.com/latchkey';
  const latchkey = at(fake, {
    issuer,
    fetch: async (to, init) => {
      const response = await fetch(to, init);
      const text = await response.text();
      return new Response(text.replaceAll(`"${fake.url}`, `"${issuer}`), { status: response.status });
    },
  });
  t.strictSame(await latchkey.keys(), { keys: fake.published });
});

test('rejects metadata of another issuer, and sends nothing to a foreign endpoint', async (t) => {
  const fake = await fakeLatchkey(t);
  await t.rejects(at(fake, { issuer: 'https://id.example.com' }).keys(), {
    code: 'unavailable',
    reason: 'configuration',
    expected: 'https://id.example.com',
    found: fake.url,
    option: 'issuer',
    message: new RegExp(`the setting is https://id.example.com, Latchkey's is ${fake.url}$`),
  });
  const asked: string[] = [];
  const foreign = at(fake, {
    fetch: (to) => {
      asked.push(to instanceof Request ? to.url : to.toString());
      const body = {
        issuer: fake.url,
        jwks_uri: `${fake.url}/keys`,
        introspection_endpoint: `${fake.url}.evil.example/`,
      };
      return Promise.resolve(Response.json(body));
    },
  });
  await t.rejects(foreign.introspect('token'), { code: 'unavailable', message: /introspection_endpoint/ });
  t.equal(asked.length, 1);
});

test('authenticates at introspection and the feed as RFC 6749 says', async (t) => {
  const fake = await fakeLatchkey(t);
  t.match(fake.client.secret, '+', 'it needs encoding');
  await t.resolves(at(fake).introspect('token'));
  const hangUp = new AbortController();
  const response = await at(fake).feed(null, hangUp.signal);
  t.equal(response.status, 200);
  hangUp.abort();
  const stranger = at(fake, { client: { ...fake.client, secret: 'wrong' } });
  const wrong = { reason: 'configuration', option: 'client', message: /401: client.id or client.secret/ };
  await t.rejects(stranger.introspect('token'), { ...wrong, answered: 401 });
  await t.rejects(stranger.feed(null, new AbortController().signal), wrong);
});

test('confirms, and says goodbye, as the reader that the feed knows', async (t) => {
  const fake = await fakeLatchkey(t);
  const sent: (string | null)[] = [];
  const latchkey = at(fake, {
    fetch(to, init) {
      sent.push(new Headers(init?.headers).get('x-latchkey-reader'));
      return fetch(to, init);
    },
  });
  const hangUp = new AbortController();
  await latchkey.feed(null, hangUp.signal);
  hangUp.abort();
  t.strictSame(sent, [READER]);
  t.equal(await latchkey.confirm('1.0'), 1);
  t.strictSame([...fake.confirmed], [[READER, { position: '1.0', instance: 'orders-1' }]]);
  await latchkey.goodbye();
  t.equal(fake.confirmed.size, 0);
  await t.rejects(latchkey.confirm('here'), { code: 'unavailable', answered: 400 });
});

test('an older Latchkey takes no confirmations, which says nothing of its endpoints', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  await latchkey.keys();
  fake.refusals.set(`/api/auth/revocations/readers/${READER}`, 404);
  await t.rejects(latchkey.confirm('1.0'), { code: 'unavailable', answered: 404 });
  await t.rejects(latchkey.goodbye(), { code: 'unavailable', answered: 404 });
  await latchkey.keys();
  t.equal(fake.requests.filter((line) => line === `GET ${METADATA}`).length, 1);
});

test('exchanges an assertion for a token, and authenticates with that', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake, { client: { assertion: () => 'jwt' } });
  t.teardown(() => {
    latchkey.close();
  });
  await t.resolves(latchkey.introspect('token'));
  const hangUp = new AbortController();
  await t.resolves(latchkey.feed(null, hangUp.signal));
  hangUp.abort();
  t.strictSame(fake.tokenRequests, [
    {
      grant_type: 'client_credentials',
      audience: fake.url,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: 'jwt',
    },
  ]);
  t.strictSame(fake.authorizations, ['Bearer service-1', 'Bearer service-1']);
});

test('asks once more, with a new token, after a 401 to its token', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake, { client: { assertion: () => 'jwt' } });
  t.teardown(() => {
    latchkey.close();
  });
  const hangUp = new AbortController();
  const calls: (() => Promise<unknown>)[] = [
    () => latchkey.introspect('token'),
    () => latchkey.feed(null, hangUp.signal),
  ];
  for (const call of calls) {
    await t.resolves(call());
    fake.bearers.clear();
    await t.resolves(call());
  }
  hangUp.abort();
  t.equal(fake.tokenRequests.length, 3);
  fake.authorizations.length = 0;
  fake.refusals.set('/api/auth/introspect', 401);
  await t.rejects(latchkey.introspect('token'), {
    code: 'unavailable',
    reason: 'configuration',
    answered: 401,
    message: /401: Latchkey refuses the token that it gave this client$/,
  });
  t.equal(fake.tokenRequests.length, 4, 'once');
  fake.refusals.set('/api/auth/introspect', 403);
  await t.rejects(latchkey.introspect('token'), { code: 'unavailable', message: /no right `introspect`/ });
  t.equal(fake.tokenRequests.length, 4, 'a missing right is no reason');
});

test('a refused assertion says so, and an issuer whose keys are away is an outage', async (t) => {
  const fake = await fakeLatchkey(t);
  fake.takesAssertion = () => false;
  const latchkey = at(fake, { client: { assertion: () => 'secret-jwt' } });
  await t.rejects(latchkey.introspect('token'), {
    code: 'unavailable',
    reason: 'configuration',
    option: 'client',
    answered: 401,
    message: "/api/auth/token answered 401: client.assertion was refused, and Latchkey's log says why",
  });
  t.equal(fake.authorizations.length, 0, 'nothing is asked without a token');
  fake.refusals.set('/api/auth/token', 503);
  await t.rejects(latchkey.introspect('token'), {
    code: 'unavailable',
    reason: 'unreachable',
    answered: 503,
  });
});

test('names a missing right, and takes a refusal without our secret for an outage', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  for (const path of ['/api/auth/introspect', '/api/auth/revocations', '/.well-known/jwks.json'])
    fake.refusals.set(path, 403);
  await t.rejects(latchkey.introspect('token'), {
    reason: 'configuration',
    message: /no right `introspect`/,
  });
  const feed = latchkey.feed(null, new AbortController().signal);
  await t.rejects(feed, { option: 'client', message: /no right `revocations`/ });
  await t.rejects(latchkey.keys(), { code: 'unavailable', reason: 'unreachable', answered: 403 });
});

test('names the audience that the client may ask about, if it is another one', async (t) => {
  const fake = await fakeLatchkey(t);
  const mistake = { code: 'unavailable', reason: 'configuration' };
  await t.rejects(at(fake, { audience: 'orders' }).introspect('token'), {
    ...mistake,
    option: 'audience',
    expected: 'orders',
    found: 'latchkey',
    message: /the setting is orders, the client's is latchkey$/,
  });
  fake.audience = 'orders';
  await t.rejects(at(fake).introspect('token'), { ...mistake, expected: 'latchkey', found: 'orders' });
  await t.resolves(at(fake, { audience: 'orders' }).introspect('token'));
  fake.audience = 'https://id.example.com/é 100%';
  await t.resolves(at(fake, { audience: 'https://id.example.com/é 100%' }).introspect('token'));
});

test('opens the feed on a new connection each time, to reach another replica', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  fake.refusals.set('/api/auth/revocations', 503);
  for (let i = 0; i < 3; i++) {
    await t.rejects(latchkey.feed(null, AbortSignal.timeout(60_000)), { code: 'unavailable', answered: 503 });
  }
  t.equal(new Set(fake.feedPorts).size, 3);
});

test('does not follow redirects', async (t) => {
  const fake = await fakeLatchkey(t);
  const server = createServer((_request, response) => response.writeHead(307, { location: fake.url }).end());
  const url = await listen(t, server);
  await t.rejects(at(fake, { url }).feed(null, AbortSignal.timeout(60_000)), {
    code: 'unavailable',
    answered: 307,
  });
  t.strictSame(fake.requests, []);
});

test('retries a request whose connection was closed', async (t) => {
  const fake = await fakeLatchkey(t);
  let isFirst = true;
  const latchkey = at(fake, {
    fetch: (...request) => {
      if (!isFirst) return fetch(...request);
      isFirst = false;
      return Promise.reject(
        new TypeError('fetch failed', { cause: Object.assign(new Error(), { code: 'UND_ERR_SOCKET' }) }),
      );
    },
  });
  t.ok(await latchkey.keys());
});

test('an outage or unexpected answer is unavailable, and the message quotes nothing', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake);
  await latchkey.keys();
  fake.introspect = () => [];
  t.strictSame(await latchkey.introspect('secret-token'), []);
  fake.refusals.set('/api/auth/introspect', 503);
  await t.rejects(latchkey.introspect('secret-token'), { code: 'unavailable', answered: 503 });
  await fake.stop();
  await t.rejects(latchkey.keys(), {
    code: 'unavailable',
    reason: 'unreachable',
    option: 'url',
    message: /jwks.json did not answer: ECONNREFUSED/,
  });
  await t.rejects(latchkey.introspect('secret-token'), {
    message: /^\/api\/auth\/introspect did not answer: ECONNREFUSED$/,
  });
  const throwing = at(fake, {
    fetch: () => {
      throw new RangeError('secret-token');
    },
  });
  await t.rejects(throwing.keys(), { reason: 'unreachable', message: /did not answer: RangeError$/ });
  const page = at(fake, {
    fetch: () => Promise.resolve(new Response('<html>', { headers: { 'content-type': 'text/html' } })),
  });
  const another = { code: 'unavailable', reason: 'unexpected_answer', option: 'url' };
  await t.rejects(page.keys(), {
    ...another,
    message: `no Latchkey at ${fake.url}: ${METADATA} returned a malformed answer: SyntaxError`,
  });
  await t.rejects(page.feed(null, AbortSignal.timeout(60_000)), {
    ...another,
    message: /expected text\/event-stream, found text\/html/,
  });
});

test('says that a port speaks no TLS, or is silent, without the password of the URL', async (t) => {
  const fake = await fakeLatchkey(t);
  const port = createTcpServer();
  const silent = await listen(t, port);
  const rows = [
    [fake.url, /: ERR_SSL_\w+: https:\/\/127\.0\.0\.1:\d+ speaks no TLS, is it http\?$/],
    [silent, /did not answer: nothing came from https:\/\/127\.0\.0\.1:\d+ within 2 s$/],
  ] as const;
  for (const [plain, message] of rows) {
    const url = plain.replace('http:', 'https:');
    const given = at(fake, {
      url: url.replace('//', '//user:secret@'),
      fetch: (to, init) => fetch(Object.assign(new URL(to as string), { username: '', password: '' }), init),
    });
    await t.rejects(given.keys(), { reason: 'unreachable', option: 'url', message });
  }
});

test('says where no Latchkey is, without the password of the URL, and not in an outage', async (t) => {
  const fake = await fakeLatchkey(t);
  const latchkey = at(fake, {
    url: fake.url.replace('//', '//user:secret@'),
    fetch: (to, init) => fetch(Object.assign(new URL(to as string), { username: '', password: '' }), init),
  });
  const ask = (path: string) =>
    path === METADATA ? latchkey.keys() : latchkey.feed(null, AbortSignal.timeout(60_000));
  const FEED = '/api/auth/revocations';
  for (const [path, status, isOther] of [
    [METADATA, 404, true],
    [METADATA, 403, true],
    [METADATA, 307, true],
    [METADATA, 408, false],
    [METADATA, 429, false],
    [METADATA, 503, false],
    [FEED, 404, true],
    [FEED, 503, false],
  ] as const) {
    fake.refusals.set(path, status);
    const answered = `${path} answered ${status}`;
    const error: unknown = await ask(path).catch((error: unknown) => error);
    t.match(
      error,
      isOther
        ? { reason: 'unexpected_answer', option: 'url', message: `no Latchkey at ${fake.url}: ${answered}` }
        : { reason: 'unreachable', option: undefined, message: answered },
    );
  }
});
