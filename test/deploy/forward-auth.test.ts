import { createServer, type IncomingMessage } from 'node:http';
import { test, type Test } from 'tap';
import { startApplication, type Seen } from '../support/application.ts';
import { anAccount, bearer, claimsOf } from '../support/client.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import {
  aSite,
  FORGED,
  isIdentity,
  longTarget,
  OF_THE_APPLICATION,
  OF_THE_PROXY,
  OF_VERIFY,
  outage,
  PROXIES,
  type Proxy,
  SEED,
  status,
  statusOfEach,
} from '../support/forward-auth.ts';
import { NAMES } from '../support/identity-headers.ts';
import { listen } from '../support/listen.ts';
import { createLimitedOver, signUpOver } from '../support/over-http.ts';
import { ALL_PATHS, PUBLIC_PATHS } from '../support/public-paths.ts';
import { spellings, waysOut } from '../support/path-spellings.ts';
import { redisMissing, testRedis } from '../support/redis.ts';

test('forward-auth', { skip: redisMissing }, async (t) => {
  const redis = testRedis(t);
  const store = await faultProxy(t, redis.url);
  const { service, seen, site } = await aSite(t, {
    REDIS_URL: store.url,
    REDIS_PREFIX: redis.prefix,
    TRUST_PROXY: 'loopback',
  });
  const { user, access_token: token } = await signUpOver(service.url, anAccount());
  const limited = (scopes: string[]) => createLimitedOver(service.url, token, scopes);
  const reader = await limited(['reports:read']);
  t.beforeEach(() => {
    seen.length = 0;
  });
  const identity = [String(user.id), user.username, String(claimsOf(token).sid), 'access', '', ''];
  const started: { proxy: Proxy; url: string }[] = [];

  for (const proxy of PROXIES) {
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      // Runs longer than this test: a later one stops the service.
      const { url } = await proxy.start(t.parent as Test, site);
      started.push({ proxy, url });
      await passesIdentity(t, url);
      await refuses(t, url);
      await keepsPublicToItself(t, url);
      await takesWhatTheApplicationTakes(t, url, longTarget(proxy.longest));
      await refusesSpoofedIdentity(t, url);
      await dropsTrailers(t, url);
      await opensPublicPaths(t, url);
      await passesEveryPath(t, url);
      if (proxy.dropsOthers) await dropsOthers(t, url);
      await upgrades(t, url);
      await takesLimitedTokens(t, url);
    });
  }

  for (const away of ['while Redis is down', 'while the service is down']) {
    await t.test(`${away} the proxy answers 503 with Retry-After`, async (t) => {
      if (away.includes('Redis')) store.set('refuse');
      else await service.stop();
      for (const { proxy, url } of started) {
        await outage(t, `${proxy.name} ${away}`, `${url}/orders`, token);
        for (const each of [token, reader.token])
          await outage(t, `${proxy.name} ${away}, with a scope`, `${url}/reports/2026`, each);
      }
      t.equal(seen.length, 0);
    });
  }

  async function passesIdentity(t: Test, url: string): Promise<void> {
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      seen.length = 0;
      const body = ['GET', 'HEAD'].includes(method) ? null : 'x'.repeat(300_000);
      const headers = { ...bearer(token), 'content-type': 'text/plain' };
      const response = await fetch(`${url}/orders?page=2`, { method, headers, body });
      t.strictSame([response.status, seen.length], [201, 1], method);
      t.match(seen[0], { method, url: '/orders?page=2', body: body ?? '' });
      isIdentity(t, seen[0], identity);
      t.equal(seen[0]?.headers.authorization, undefined, 'no token reaches the application');
      t.notOk(response.headers.has('x-auth-user'), 'the client does not get the identity');
    }
    const broken = await fetch(`${url}/broken`, { headers: bearer(token) });
    t.strictSame(
      [broken.status, await broken.text()],
      [500, 'the application failed'],
      'the application’s own error',
    );
  }

  async function refuses(t: Test, url: string): Promise<void> {
    seen.length = 0;
    for (const [headers, code, challenge] of [
      [{}, 'token_missing', 'Bearer'],
      [bearer('x.y.z'), 'invalid_token', 'Bearer error="invalid_token"'],
      // Headers in which a client describes another request or itself.
      [{ 'x-forwarded-uri': '/public/', 'x-original-url': '/public/' }, 'token_missing', 'Bearer'],
      [{ 'x-forwarded-method': 'OPTIONS', 'x-forwarded-for': '127.0.0.1' }, 'token_missing', 'Bearer'],
    ] as const) {
      const response = await fetch(`${url}/orders`, { headers });
      t.equal(response.status, 401);
      t.equal(response.headers.get('www-authenticate'), challenge);
      t.equal(response.headers.get('content-type')?.split(';')[0], 'application/problem+json');
      t.equal(response.headers.get('cache-control'), 'no-store');
      t.match(await response.json(), { status: 401, code });
    }
    t.equal(seen.length, 0);
  }

  /** The application may read the path that it gets in any way. */
  async function keepsPublicToItself(t: Test, url: string): Promise<void> {
    seen.length = 0;
    const paths = spellings(SEED, 1500);
    const statuses = await statusOfEach(url, paths);
    const escaped = seen
      .map(({ url = '' }) => [url, ...waysOut(url)])
      .filter(([, ...ways]) => ways.length > 0);
    t.strictSame(escaped, [], `passed without a token; seed ${SEED}`);
    t.strictSame(
      statuses.filter((each) => each !== '401' && each !== '201' && each !== '400'),
      [],
      'no spelling is refused otherwise',
    );
    t.ok(seen.length > 10, `${seen.length} of them are public`);
    for (const path of [
      '/public/',
      '/public/x',
      '/public/a-b/c_d.e~f/',
      '/public/x?a=b;c=..;/',
      '/public/x?%2F..',
    ])
      t.equal(await status(url, `GET ${path}`), '201', path);
    for (const path of ['/public', '/publicx', '/PUBLIC/x', '/public/.x', '/public/a%20b'])
      t.equal(await status(url, `GET ${path}`), '401', path);
    for (const schemes of ['x:', 'x:y:', 'http:http:'])
      for (const path of ['/.well-known/jwks.json', '/public/x'])
        t.match(await status(url, `GET ${schemes}http://x${path}`), /^40[01]$/, schemes + path);
  }

  async function takesWhatTheApplicationTakes(t: Test, url: string, target: string): Promise<void> {
    seen.length = 0;
    const authorization = `Authorization: Bearer ${token}`;
    const line = `POST ${target}`;
    t.equal(await status(url, line, OF_THE_APPLICATION, 'ok'), '401');
    t.equal(await status(url, line, [authorization, ...OF_THE_APPLICATION], 'ok'), '201');
    t.match(seen, [{ method: 'POST', url: target, body: 'ok' }]);
    isIdentity(t, seen[0], identity);
    for (const path of ['/a%2Fb', '/a%5cb', '/a%3Bb', '/a%25b', '/a%3Fb', '/a%23b', '/a%20b/%C3%A9/%FF'])
      t.equal(await status(url, `GET ${path}`, [authorization]), '201', path);
    // The one header that verify reads. None of these means that Latchkey is away.
    for (const bad of ['Bearer \x01', 'Bearer \xff', `Bearer ${'x'.repeat(7000)}`, 'Bearer', ''])
      t.match(await status(url, 'GET /orders', [`Authorization: ${bad}`]), /^40[01]$/, bad.slice(0, 9));
    t.equal(seen.length, 8);
  }

  async function dropsOthers(t: Test, url: string): Promise<void> {
    seen.length = 0;
    const headers = { ...bearer(token), 'X-Auth-Groups': 'admin', 'x-auth-email': 'root@example.com' };
    await fetch(`${url}/orders`, { headers });
    isIdentity(t, seen[0], identity);
  }

  async function refusesSpoofedIdentity(t: Test, url: string): Promise<void> {
    for (const [title, lines] of Object.entries(FORGED)) {
      seen.length = 0;
      t.equal(await status(url, 'GET /orders', lines), '401', `${title}, without a token`);
      t.equal(seen.length, 0);
      t.equal(await status(url, 'GET /orders', [`Authorization: Bearer ${token}`, ...lines]), '201', title);
      isIdentity(t, seen.at(0), identity, title);
      t.equal(await status(url, 'GET /public/x', [`Authorization: Bearer ${token}`, ...lines]), '201', title);
      isIdentity(t, seen.at(1), [], `${title}, on a public path`);
      t.equal(seen[1]?.headers.authorization, undefined, 'no token on a public path');
      t.equal(seen.length, 2);
    }
  }

  async function dropsTrailers(t: Test, url: string): Promise<void> {
    seen.length = 0;
    const trailers = NAMES.map((name) => `${name}: spoofed`).join('\r\n');
    const lines = [`Authorization: Bearer ${token}`, 'TE: trailers', `Trailer: ${NAMES.join(', ')}`];
    const body = `2\r\nok\r\n0\r\n${trailers}\r\n\r\n`;
    t.equal(await status(url, 'POST /orders', [...lines, 'Transfer-Encoding: chunked'], body), '201');
    t.equal(seen[0]?.body, 'ok');
    isIdentity(t, seen[0], identity, 'with trailers');
  }

  /** The API's, without its endpoints for services alone. */
  async function opensPublicPaths(t: Test, url: string): Promise<void> {
    seen.length = 0;
    for (const path of PUBLIC_PATHS)
      t.notMatch(await status(url, `GET ${path}`, [`Authorization: Bearer ${token}`]), /^502$/, path);
    t.strictSame(seen, [], 'Latchkey answers them all');
  }

  async function passesEveryPath(t: Test, url: string): Promise<void> {
    for (const path of [
      '/?',
      '/?a=b?c&d=%2F..%2F',
      '/a%20b/%C3%A9',
      '/a;b=c/$d,e@f:g',
      '/public/..;/orders',
      ...ALL_PATHS.filter((path) => !PUBLIC_PATHS.includes(path)),
      '/a/../api/users',
      `/${'long/'.repeat(1000)}`,
    ]) {
      seen.length = 0;
      t.equal(await status(url, `GET ${path}`), '401', path);
      t.equal(seen.length, 0);
      t.equal(await status(url, `GET ${path}`, [`Authorization: Bearer ${token}`]), '201', path);
      isIdentity(t, seen[0], identity, path);
    }
  }

  /** Only where the proxy's file demands a scope, whatever the client sends besides the token. */
  async function takesLimitedTokens(t: Test, url: string): Promise<void> {
    const ofReader = [String(user.id), user.username, String(reader.id), 'limited', '', ''];
    for (const path of ['/reports/', '/reports/2026', '/reports/2026/q1.pdf?scope=none&audience=orders']) {
      seen.length = 0;
      const authorization = [`Authorization: Bearer ${reader.token}`, 'X-Forwarded-Uri: /orders'];
      t.equal(await status(url, `GET ${path}`, authorization), '201', path);
      isIdentity(t, seen[0], ofReader, path);
      t.equal(seen[0]?.headers.authorization, undefined);
      t.equal(await status(url, `GET ${path}`, [`Authorization: Bearer ${token}`]), '201', path);
      isIdentity(t, seen[1], identity, path);
      t.equal(await status(url, `GET ${path}`), '401', path);
    }
    for (const lines of Object.values(FORGED)) {
      seen.length = 0;
      await status(url, 'GET /reports/x', [`Authorization: Bearer ${reader.token}`, ...lines]);
      isIdentity(t, seen[0], ofReader);
    }

    // Where no scope is demanded, it is the wrong kind of token and not a bad one.
    seen.length = 0;
    for (const line of [
      ...['POST', 'PUT', 'DELETE'].map((method) => `${method} /reports/x`),
      ...['/', '/orders', '/reports', '/reportsx', '/REPORTS/x', '/reports/.x', '/reports/a%20b'].map(
        (path) => `GET ${path}`,
      ),
      'GET /orders?scope=reports:read',
      'GET /orders?scopes=reports:read',
      'GET /scopes/reports:read/verify',
    ])
      await refusesScope(t, url, line, reader.token);
    for (const name of ['X-Forwarded-Uri', 'X-Original-Url', 'X-Rewrite-Url', 'X-Original-Uri']) {
      const lines = [`Authorization: Bearer ${reader.token}`, `${name}: /reports/x`];
      t.equal(await status(url, 'GET /orders', lines), '403', name);
    }
    for (const bad of [reader.token.slice(0, -2), `${reader.token}.x`])
      t.equal(await status(url, 'GET /orders', [`Authorization: Bearer ${bad}`]), '401', 'a forged one');
    const { token: other } = await limited(['orders:read', 'reports']);
    for (const path of [
      '/reports/2026',
      '/reports/2026?scope=orders:read',
      '/reports/2026?scopes=orders:read&audience=orders',
    ])
      await refusesScope(t, url, `GET ${path}`, other, 'reports:read');
    t.equal(seen.length, 0, 'none of these reached the application');

    await statusOfEach(url, spellings(SEED, 500, 'reports'), [`Authorization: Bearer ${reader.token}`]);
    const escaped = seen.filter(({ url: path = '' }) => waysOut(path, 'reports').length > 0);
    t.strictSame(
      escaped.map(({ url: path }) => path),
      [],
      `a limited token got elsewhere; seed ${SEED}`,
    );
    t.ok(seen.length > 5, `${seen.length} of them demand the scope`);
    // The application's own refusal stays its own.
    const forbidden = await fetch(`${url}/forbidden`, { headers: bearer(token) });
    t.strictSame([forbidden.status, await forbidden.text()], [403, 'the application refuses']);
  }

  /** @param scope that is demanded; without it, none is. */
  async function refusesScope(t: Test, url: string, line: string, bearing: string, scope?: string) {
    const [method = '', path = ''] = line.split(' ');
    const response = await fetch(url + path, { method, headers: bearer(bearing) });
    t.equal(response.status, 403, line);
    const named = scope === undefined ? '' : `, scope="${scope}"`;
    t.equal(response.headers.get('www-authenticate'), `Bearer error="insufficient_scope"${named}`, line);
    t.equal(response.headers.get('content-type')?.split(';')[0], 'application/problem+json');
    t.equal(response.headers.get('cache-control'), 'no-store');
    t.match(await response.json(), { status: 403, code: 'insufficient_scope' });
  }

  async function upgrades(t: Test, url: string): Promise<void> {
    const lines = (protocol: string) => [`Upgrade: ${protocol}`, `Authorization: Bearer ${token}`];
    const naming = `Connection: Upgrade, ${NAMES.join(', ')}`;
    seen.length = 0;
    t.equal(await status(url, 'GET /socket', [naming, 'Upgrade: websocket']), '401');
    t.equal(seen.length, 0);
    t.equal(await status(url, 'GET /socket', [naming, ...lines('websocket')]), '101');
    isIdentity(t, seen[0], identity, 'on a WebSocket');
    t.equal(
      await status(url, 'GET /socket', [naming, ...lines('h2c')]),
      '201',
      'no other upgrade is passed on',
    );
    isIdentity(t, seen[1], identity);
    for (const [first, second] of [
      ['h2c', 'websocket'],
      ['websocket', 'h2c'],
    ]) {
      const two = [`Connection: Upgrade`, `Upgrade: ${first}`, `Upgrade: ${second}`];
      await status(url, 'GET /public/socket', two);
    }
    t.notOk(
      seen.flatMap(({ rawHeaders }) => rawHeaders).some((value) => /h2c/i.test(value)),
      'also beside a WebSocket',
    );
  }
});

/** The client's own length would announce a body that the question lacks, and the next question would be read as it. */
const NO_BODY = 'content-length: 0';

test('verify hears of the token alone, and its roles and client reach the application', async (t) => {
  let answered: string | null = null;
  const asked: IncomingMessage[] = [];
  const verify = createServer((request, response) => {
    asked.push(request);
    const values = ['7', 'ada', '11', 'access', answered, answered];
    NAMES.forEach((name, i) => {
      const value = values[i];
      if (typeof value === 'string') response.setHeader(name, value);
    });
    response.end();
  });
  const seen: Seen[] = [];
  const opsUrl = await listen(t, verify);
  const upstreams = { 'http://latchkey:3000': opsUrl, 'http://app:8081': await startApplication(t, seen) };
  const site = { upstreams, opsUrl };
  for (const proxy of PROXIES) {
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const { url } = await proxy.start(t, site);
      asked.length = 0;
      const lines = ['Authorization: Bearer x', 'X-Request-Id: 7', ...OF_THE_APPLICATION];
      t.equal(await status(url, `POST ${longTarget(proxy.longest)}`, lines, 'ok'), '201');
      const [question, ...more] = asked.filter(({ url = '' }) => url.includes('verify'));
      t.match(question, {
        url: '/api/auth/verify',
        headers: { authorization: 'Bearer x', 'x-request-id': /./ },
      });
      t.strictSame(more, []);
      const others = Object.entries(question?.headers ?? {}).filter(
        ([name, value]) =>
          ![...OF_THE_PROXY, ...OF_VERIFY].includes(name) && `${name}: ${String(value)}` !== NO_BODY,
      );
      t.strictSame(others, [], 'nothing else of the client');

      // Latchkey reads the path that it gets, too.
      for (const path of [
        '/api/users/../auth',
        '/api/users/..%2fauth',
        '/api/users/7/../../auth',
        '/API/auth',
        // Go reads these as URLs without a path, and passes on what follows the scheme.
        ...['x:', 'x:y:', 'http:http:'].map((schemes) => `${schemes}http://x/api/users`),
      ])
        await status(url, `GET ${path}`);
      const elsewhere = asked.filter(({ url = '' }) => !/^\/(api\/auth(\/|$)|health\/)/.test(url));
      t.strictSame(
        elsewhere.map(({ url }) => url),
        [],
        'no path leads to another part of the API',
      );

      // Without the header, the client's own may not take its place.
      for (const roles of [null, '', 'admin', 'admin,shop:read']) {
        answered = roles;
        for (const [how, lines] of Object.entries(FORGED)) {
          seen.length = 0;
          const title = `${roles ?? 'no header'}, forged ${how}`;
          t.equal(await status(url, 'GET /orders', lines), '201', title);
          // Caddy 2.6 then passes the name of a placeholder on, which is no role and no client.
          if (roles !== null) isIdentity(t, seen[0], ['7', 'ada', '11', 'access', roles, roles], title);
          else
            for (const name of ['x-auth-roles', 'x-auth-client'])
              t.notMatch(seen[0]?.headers[name] ?? '', /^[a-z0-9:_,-]+$/, title);
        }
      }
    });
  }
});
