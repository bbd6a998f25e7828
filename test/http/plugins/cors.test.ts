import { test } from 'tap';
import { BROWSER_PATHS } from '../../../src/http/plugins/cors.ts';
import { buildTestApp } from '../../support/app.ts';
import { bearer, call, createLongLived, signUp } from '../../support/client.ts';
import { openApiDocument } from '../../support/openapi.ts';
import { logLines } from '../../support/log-lines.ts';
import { refused } from '../../support/problem.ts';

const APP = 'https://app.example';
const SHELL = 'capacitor://localhost';
const ORIGINS = `${APP}, http://localhost:5173, ${SHELL}`;
const STRANGERS = [
  'https://evil.example',
  `${APP}.evil.example`,
  `${APP}:8443`,
  'http://app.example',
  'HTTPS://APP.EXAMPLE',
  'https://ada:secret@app.example',
  'capacitor://localhost/',
  'file://',
  '*',
  'null',
  '',
];

const preflight = (origin: string, method = 'POST') => ({
  origin,
  'access-control-request-method': method,
  'access-control-request-headers': 'authorization,content-type',
});

type Headers = Record<string, unknown>;

function corsHeaders(headers: Headers): string[] {
  return Object.keys(headers).filter((name) => name.startsWith('access-control-') || name === 'vary');
}

test('an origin in CORS_ORIGINS may call every operation of a user’s client, and read its answers', async (t) => {
  const target = await buildTestApp(t, { env: { CORS_ORIGINS: ORIGINS } });
  const { paths } = await openApiDocument();
  for (const origin of ORIGINS.split(', ')) {
    for (const path of BROWSER_PATHS) {
      const operations = Object.keys(paths[path.replace(':id', '{id}')] ?? {});
      const asked = await call(target, `OPTIONS ${path.replace(':id', '7')}`, { headers: preflight(origin) });
      t.equal(asked.statusCode, 204, path);
      t.equal(asked.body, '');
      t.match(asked.headers, {
        'access-control-allow-origin': origin,
        'access-control-allow-methods': operations
          .map((method) => method.toUpperCase())
          .sort()
          .join(', '),
        'access-control-allow-headers': /Authorization.*Content-Type/,
        'access-control-max-age': /^\d+$/,
        vary: 'Origin',
      });
      t.equal(asked.headers['access-control-allow-credentials'], undefined);
    }
  }
  const { access_token: token } = await signUp(target);
  const answer = await call(target, 'GET /api/user', { token, headers: { origin: APP } });
  t.equal(answer.statusCode, 200);
  t.match(answer.headers, { 'access-control-allow-origin': APP, vary: 'Origin' });
  for (const name of ['Retry-After', 'WWW-Authenticate', 'X-Request-Id'])
    t.match(answer.headers['access-control-expose-headers'], name);
  t.equal(answer.headers['access-control-allow-credentials'], undefined);
});

test('errors can be read too: 400, 401, 403, 405, 415, 429 and 503', async (t) => {
  const env = { CORS_ORIGINS: ORIGINS, RATE_LIMIT_SIGNUP: '1/600' };
  const target = await buildTestApp(t, { env });
  const headers = { origin: APP };
  const { access_token: token } = await signUp(target);
  const { longlived_token: llt } = await createLongLived(target, token);
  const full = await buildTestApp(t, {
    env,
    override: (options) => ({
      ...options,
      loadShedding: { ...options.loadShedding, lag: () => 9, maxLag: 1 },
    }),
  });
  const answers = [
    [400, await call(target, 'POST /api/auth', { headers, payload: {} })],
    [401, await call(target, 'GET /api/auth/refresh', { headers })],
    [403, await call(target, 'POST /api/auth/llt', { headers, token: llt, payload: { device: 'x' } })],
    [405, await call(target, 'PUT /api/user', { headers })],
    [
      415,
      await call(target, 'POST /api/auth', {
        headers: { ...headers, 'content-type': 'text/x' },
        payload: 'x',
      }),
    ],
    [429, await call(target, 'POST /api/auth/signup', { headers, payload: {} })],
    [503, await call(full, 'POST /api/auth', { headers, payload: {} })],
  ] as const;
  for (const [status, answer] of answers) {
    t.equal(answer.statusCode, status, answer.body);
    t.match(answer.headers, { 'access-control-allow-origin': APP, vary: 'Origin' }, `${status}`);
  }
});

test('other origins get no permission, and their preflights say why', async (t) => {
  const target = await buildTestApp(t, { env: { CORS_ORIGINS: ORIGINS } });
  for (const origin of STRANGERS) {
    for (const path of BROWSER_PATHS) {
      const line = `OPTIONS ${path.replace(':id', '7')}`;
      const asked = await call(target, line, { headers: preflight(origin) });
      refused(t, asked, 403, 'origin_not_listed');
      t.strictSame(corsHeaders(asked.headers), ['vary'], origin);
      t.notMatch(asked.body, /secret|evil/);
    }
    // Browsers send the header within a site too.
    const answer = await call(target, 'GET /api/auth/refresh', { headers: { origin } });
    refused(t, answer, 401, 'token_missing');
    t.strictSame(corsHeaders(answer.headers), ['vary'], origin);
  }
  // Without an origin too: a cache must not give one origin the answer for another.
  t.strictSame(corsHeaders((await call(target, 'GET /api/auth/refresh')).headers), ['vary']);
  // OPTIONS that no browser asked.
  const origins = [APP, 'https://evil.example'].map((each) => ({ origin: each }));
  for (const headers of [...origins, { 'access-control-request-method': 'POST' }])
    refused(t, await call(target, 'OPTIONS /api/auth', { headers }), 405, 'method_not_allowed');
  const { access_token: token } = await signUp(target);
  const origin = 'https://evil.example';
  t.equal((await call(target, 'GET /api/user', { token, headers: { origin } })).statusCode, 200);
});

test('the log names each origin once, and at most 20 in an hour', async (t) => {
  let skipped = 0;
  const target = await buildTestApp(t, {
    override: (options) => ({
      ...options,
      clock: { ...options.clock, monotonic: () => options.clock.monotonic() + skipped },
    }),
  });
  const lines = () => logLines(target.log()).filter(({ origin }) => origin !== undefined);
  const named = () => lines().map(({ origin }) => origin);
  const ask = (origin: string, line = 'OPTIONS /api/auth') =>
    call(target, line, { headers: preflight(origin) });
  const longest = `https://${'a'.repeat(120)}`;
  for (const origin of ['https://app.example/', 'https://a b', 'x', ...STRANGERS, `${longest}a`])
    await ask(origin);
  for (const origin of [longest, 'capacitor://localhost', 'https://[::1]:8443']) {
    await ask(origin);
    await ask(origin, 'OPTIONS /api/user/tokens/7');
  }
  const expected = [
    'https://evil.example',
    'https://app.example.evil.example',
    'https://app.example:8443',
    'http://app.example',
    longest,
    'capacitor://localhost',
    'https://[::1]:8443',
  ];
  t.strictSame(named(), expected);
  t.match(
    lines().find(({ origin }) => origin === longest),
    { level: 'warn', msg: /CORS_ORIGINS/ },
  );
  for (let i = 0; i < 5000; i++) await ask(`https://${i}.example`);
  t.equal(named().length, 20);
  // Three minutes less than an hour, and three more.
  skipped = 3_420_000;
  await ask('https://late.example');
  t.equal(named().length, 20);
  skipped = 3_780_000;
  for (const origin of ['https://late.example', longest]) await ask(origin);
  t.strictSame(named().slice(20), ['https://late.example'], 'and none a second time');
  t.notMatch(target.log(), /secret/);
});

test('verify and the operations of services stay closed to scripts', async (t) => {
  const target = await buildTestApp(t, { env: { CORS_ORIGINS: ORIGINS } });
  const { access_token: token } = await signUp(target);
  for (const path of ['/api/auth/verify', '/api/auth/verify/below']) {
    const asked = await call(target, `OPTIONS ${path}`, { headers: preflight(APP, 'GET') });
    refused(t, asked, 401, 'token_missing');
    t.strictSame(corsHeaders(asked.headers), []);
    const passed = await call(target, `OPTIONS ${path}`, {
      headers: { ...preflight(APP), ...bearer(token) },
    });
    t.equal(passed.statusCode, 200, 'a proxy asks for its client');
    t.strictSame(corsHeaders(passed.headers), []);
  }
  for (const path of [
    '/api/auth/introspect',
    '/api/auth/revoke',
    '/api/auth/uses',
    '/api/auth/revocations',
    '/api/users',
    '/nowhere',
  ])
    t.strictSame(
      corsHeaders((await call(target, `OPTIONS ${path}`, { headers: preflight(APP) })).headers),
      [],
    );
});

test('without CORS_ORIGINS there are no CORS headers and no hook, and a preflight says why', async (t) => {
  const target = await buildTestApp(t);
  const asked = await call(target, 'OPTIONS /api/auth', { headers: preflight(APP) });
  refused(t, asked, 403, 'origin_not_listed');
  refused(
    t,
    await call(target, 'OPTIONS /api/users', { headers: preflight(APP) }),
    405,
    'method_not_allowed',
  );
  for (const answer of [asked, await call(target, 'GET /api/auth/refresh', { headers: { origin: APP } })])
    t.strictSame(corsHeaders(answer.headers), []);
});

test('the paths that are open are those that a user’s client calls', async (t) => {
  const { paths } = await openApiDocument();
  const ofUsers = Object.entries(paths).filter(([, operations]) =>
    Object.values(operations).every(
      ({ tags, security }) =>
        !tags.some((tag) => tag === 'Verification' || tag === 'Discovery') &&
        (security.length === 0 ||
          security.some((scheme) => !('serviceClient' in scheme || 'serviceToken' in scheme))),
    ),
  );
  t.strictSame([...BROWSER_PATHS].sort(), ofUsers.map(([path]) => path.replace('{id}', ':id')).sort());
});
