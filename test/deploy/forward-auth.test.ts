import { createServer, type IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { test, type Test } from 'tap';
import { startApplication, type Seen } from '../support/application.ts';
import { exchangeForm } from '../support/audiences.ts';
import { anAccount, bearer, claimsOf } from '../support/client.ts';
import { startDeployedCaddy } from '../support/deployed-caddy.ts';
import { startDeployedNginx } from '../support/deployed-nginx.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { ALIASES, NAMES, withAudience } from '../support/identity-headers.ts';
import { listen } from '../support/listen.ts';
import { createLimitedOver, logOutOver, refreshOver, signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { ALL_PATHS, PUBLIC_PATHS } from '../support/public-paths.ts';
import { spellings, waysOut } from '../support/path-spellings.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { ready, startService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';

/** Ways to forge all identity headers, as lines of a request. */
const FORGED: Record<string, string[]> = {
  'in its own spelling': NAMES.map((name) => `${name}: spoofed`),
  'in lower case': NAMES.map((name) => `${name.toLowerCase()}: spoofed`),
  'in capitals, twice': NAMES.flatMap((name) => [`${name.toUpperCase()}: spoofed`, `${name}: spoofed`]),
  'first empty, then spoofed': NAMES.flatMap((name) => [`${name}:`, `${name}: spoofed`]),
  'as hop-by-hop headers': [`Connection: ${NAMES.join(', ')}`],
  'as hop-by-hop headers, in two lines': [
    `Connection: ${NAMES.join(',')}`,
    `Connection: keep-alive, Upgrade`,
  ],
};
for (const { odd, names } of ALIASES) FORGED[`with ${odd}`] = names.map((name) => `${name}: spoofed`);

/** For the spellings of a path. */
const SEED = Number(process.env.TEST_SEED ?? 1);

/** What a client may send with a request that an application takes, but that says nothing to Latchkey. */
const OF_THE_APPLICATION = [
  ...['a', 'b'].map((name) => `Cookie: ${name}=${'x'.repeat(7000)}`),
  ...['Referer: http://x/', 'User-Agent: ', 'Baggage: b='].map((line) => line + 'x'.repeat(2000)),
  'Accept: text/html',
  'Content-Type: text/plain',
  'Content-Length: 2',
  'Range: bytes=0-1',
  'TE: trailers',
  'Expect: 100-continue',
  'If-None-Match: "x"',
  'Prefer: wait=1',
  'Origin: http://x',
  'X-Custom: 1',
  `Traceparent: 00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  'Tracestate: x=y',
  'Last-Event-Id: 7',
  'Forwarded: for=192.0.2.1',
  'X-Forwarded-Uri: /public/',
  'X-Original-Url: /public/',
  'Access-Control-Request-Method: GET',
];
/** A path with a query, of about so many bytes. */
const longTarget = (bytes: number) =>
  `/${'long/'.repeat(bytes / 10)}?audience=orders&q=${'%20'.repeat(bytes / 6)}`;
/** Headers of a question to verify, besides those that each proxy sets itself. */
const OF_VERIFY = ['authorization', 'x-request-id', 'x-forwarded-for'];
const OF_THE_PROXY = ['host', 'connection', 'accept-encoding', 'x-forwarded-host', 'x-forwarded-proto'];
/** The client's own length would announce a body that the question lacks, and the next question would be read as it. */
const NO_BODY = 'content-length: 0';

interface Proxy {
  name: string;
  skip: false | string;
  /** Bytes of a request line that it takes with its default limits: more than Latchkey does, if it can be. */
  longest: number;
  /** The proxy can select headers by a pattern. */
  dropsOthers: boolean;
  /** @param edit changes the configuration. */
  start(
    t: Test,
    upstreams: Record<string, string>,
    edit?: (text: string) => string,
  ): Promise<{ url: string }>;
}

/** Where the service of this test tells its health. */
let opsPort = '';

const PROXIES: Proxy[] = [
  {
    name: 'nginx',
    skip: toolsMissing('bash', 'nginx'),
    longest: 7_000,
    dropsOthers: false,
    start: (t, upstreams, edit) => startDeployedNginx(t, 'nginx.conf', upstreams, edit),
  },
  {
    name: 'Caddy',
    skip: toolsMissing('bash', 'caddy'),
    longest: 20_000,
    dropsOthers: true,
    start: (t, upstreams, edit) =>
      startDeployedCaddy(
        t,
        Object.fromEntries(Object.entries(upstreams).map(([from, to]) => [new URL(from).host, to])),
        opsPort,
        edit,
      ),
  },
];

/** A service with a database of its own, and an application that notes what it sees. */
async function aSite(t: Test, env: Record<string, string> = {}) {
  const { DATABASE_URL = (await testDatabase(t)).url, ...others } = env;
  const service = await startService(t, { DATABASE_URL, ...others });
  await ready(service);
  opsPort = new URL(service.opsUrl).port;
  const seen: Seen[] = [];
  const upstreams = {
    'http://latchkey:3000': service.url,
    'http://app:8081': await startApplication(t, seen),
  };
  return { service, seen, upstreams };
}

test('forward-auth', { skip: redisMissing }, async (t) => {
  const redis = testRedis(t);
  const store = await faultProxy(t, redis.url);
  const { service, seen, upstreams } = await aSite(t, {
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
      const { url } = await proxy.start(t.parent as Test, upstreams);
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
    const statuses: (string | undefined)[] = [];
    for (let i = 0; i < paths.length; i += 50) {
      const some = paths.slice(i, i + 50).map((path) => status(url, `GET ${path}`));
      statuses.push(...(await Promise.all(some)));
    }
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

    seen.length = 0;
    for (const method of ['POST', 'PUT', 'DELETE'])
      t.equal(
        await status(url, `${method} /reports/x`, [`Authorization: Bearer ${reader.token}`]),
        '401',
        method,
      );
    for (const path of [
      '/',
      '/orders',
      '/reports',
      '/reportsx',
      '/REPORTS/x',
      '/reports/.x',
      '/reports/a%20b',
    ])
      t.equal(await status(url, `GET ${path}`, [`Authorization: Bearer ${reader.token}`]), '401', path);
    for (const path of [
      '/orders?scope=reports:read',
      '/orders?scopes=reports:read',
      '/scopes/reports:read/verify',
    ])
      t.equal(await status(url, `GET ${path}`, [`Authorization: Bearer ${reader.token}`]), '401', path);
    for (const name of ['X-Forwarded-Uri', 'X-Original-Url', 'X-Rewrite-Url', 'X-Original-Uri']) {
      const lines = [`Authorization: Bearer ${reader.token}`, `${name}: /reports/x`];
      t.equal(await status(url, 'GET /orders', lines), '401', name);
    }
    const { token: other } = await limited(['orders:read', 'reports']);
    for (const path of [
      '/reports/2026',
      '/reports/2026?scope=orders:read',
      '/reports/2026?scopes=orders:read&audience=orders',
    ]) {
      const response = await fetch(url + path, { headers: bearer(other) });
      t.equal(response.status, 403, path);
      t.equal(
        response.headers.get('www-authenticate'),
        'Bearer error="insufficient_scope", scope="reports:read"',
      );
      t.equal(response.headers.get('content-type')?.split(';')[0], 'application/problem+json');
      t.equal(response.headers.get('cache-control'), 'no-store');
      t.match(await response.json(), { status: 403, code: 'insufficient_scope' });
    }
    t.equal(seen.length, 0, 'none of these reached the application');

    const paths = spellings(SEED, 500, 'reports');
    for (let i = 0; i < paths.length; i += 50)
      await Promise.all(
        paths
          .slice(i, i + 50)
          .map((path) => status(url, `GET ${path}`, [`Authorization: Bearer ${reader.token}`])),
      );
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

test('forward-auth for one audience', async (t) => {
  const DATABASE_URL = (await testDatabase(t)).url;
  await aRegisteredService(DATABASE_URL, 'orders', [], 'orders');
  const gateway = await aRegisteredService(DATABASE_URL, 'gateway', ['exchange', 'call:orders']);
  const { service, seen, upstreams } = await aSite(t, { DATABASE_URL, TRUST_PROXY: 'loopback' });
  const { user, access_token: subject } = await signUpOver(service.url, anAccount());
  const issued = async (form: Record<string, string>, headers: Record<string, string>) => {
    const body = new URLSearchParams(form);
    const response = await fetch(`${service.url}/api/auth/token`, { method: 'POST', headers, body });
    return ((await response.json()) as { access_token: string }).access_token;
  };
  const exchanged = (subject: string, headers: Record<string, string>) =>
    issued(exchangeForm(subject, 'orders'), headers);
  const token = await exchanged(subject, bearer(subject));
  const ofGateway = await issued({ grant_type: 'client_credentials', audience: 'orders' }, basic(gateway));
  const identity = [String(user.id), user.username, String(claimsOf(subject).sid), 'access', '', ''];
  // A client may try to choose the audience itself.
  const targets = ['/', '/items/7?page=2', '/items?audience=orders', '/?audience=latchkey', '/?audience='];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const ofAudience = await proxy.start(t, upstreams, withAudience);
      const plain = await proxy.start(t, upstreams);
      for (const target of targets)
        for (const [how, lines] of Object.entries(target === '/' ? { not: [], ...FORGED } : { not: [] }))
          for (const [{ url }, good, bad] of [
            [ofAudience, token, subject],
            [plain, subject, token],
          ] as const) {
            seen.length = 0;
            const title = `${target}, forged ${how}`;
            const line = `GET ${target}`;
            t.equal(await status(url, line, [`Authorization: Bearer ${bad}`, ...lines]), '401', title);
            t.equal(await status(url, line, lines), '401', title);
            t.equal(seen.length, 0);
            t.equal(await status(url, line, [`Authorization: Bearer ${good}`, ...lines]), '201', title);
            isIdentity(t, seen[0], identity, title);
          }

      for (const [how, lines] of Object.entries({ not: [], ...FORGED })) {
        seen.length = 0;
        const title = `a service, forged ${how}`;
        const asGateway = [`Authorization: Bearer ${ofGateway}`, ...lines];
        t.equal(await status(plain.url, 'GET /', asGateway), '401', title);
        t.equal(seen.length, 0);
        t.equal(await status(ofAudience.url, 'GET /', asGateway), '201', title);
        isIdentity(t, seen[0], ['', '', '', 'service', '', gateway.serviceId], title);
      }

      const opened = await signUpOver(service.url);
      const ofService = await exchanged(opened.access_token, basic(gateway));
      const asked = () => status(ofAudience.url, 'GET /', [`Authorization: Bearer ${ofService}`]);
      seen.length = 0;
      t.equal(await asked(), '201', 'a service asked for the token');
      t.match(seen[0]?.headers, {
        'x-auth-user': String(opened.user.id),
        'x-auth-client': gateway.serviceId,
      });
      const refreshed = await refreshOver(service.url, opened.refresh_token);
      t.equal(refreshed.status, 200);
      const { access_token: newer } = (await refreshed.json()) as { access_token: string };
      t.equal(await verifyOver(service.url, newer), 200);
      t.equal(await asked(), '201', 'a refresh does not end it');
      t.equal(await logOutOver(service.url, newer), 200);
      t.equal(await asked(), '401', 'the end of the session does');
    });

  const caddy = PROXIES.find(({ name }) => name === 'Caddy');
  const { skip = true } = caddy ?? {};
  await t.test(
    'Caddy’s file without the ? after verify lets no client choose the audience',
    { skip },
    async (t) => {
      const without = (text: string) => {
        const changed = text.replace(
          'rewrite * /api/auth{path}verify?\n',
          'rewrite * /api/auth{path}verify\n',
        );
        if (changed === text) throw new Error('there is no ? after verify');
        return changed;
      };
      const { url } = (await caddy?.start(t, upstreams, without)) ?? { url: '' };
      for (const query of [
        '?audience=orders',
        '?page=2&audience=orders',
        '?audience=orders&',
        '?%61udience=orders',
        '?audience=orders&x;y',
        '?audience=orders&%zz',
        '?audience=orders?',
      ])
        t.equal(await status(url, `GET /items${query}`, [`Authorization: Bearer ${token}`]), '401', query);
      t.equal(await status(url, 'GET /items?page=2', [`Authorization: Bearer ${subject}`]), '201');
      t.equal(await status(url, 'GET /items?page=2', [`Authorization: Bearer ${token}`]), '401');
    },
  );
});

test('a proxy can demand more of the login, and no client can lower that', async (t) => {
  const { service, seen, upstreams } = await aSite(t);
  const { access_token: token } = await signUpOver(service.url, anAccount());
  const authorization = `Authorization: Bearer ${token}`;
  const demanding: Record<string, (text: string) => string> = {
    nginx: (text) => text.replaceAll('#mfa ', ''),
    Caddy: (text) =>
      text.replace('verify?\n\t\treverse', 'verify?demand_acr=mfa&demand_max_age=300\n\t\treverse'),
  };
  const queries = ['', '?demand_acr=', '?demand_acr=mfa&demand_max_age=99999', '?x=1&demand_max_age=99999'];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const { url } = await proxy.start(t, upstreams, demanding[proxy.name]);
      const plain = await proxy.start(t, upstreams);
      for (const query of queries) {
        seen.length = 0;
        const answer = await fetch(`${url}/admin/users${query}`, { headers: bearer(token) });
        t.equal(answer.status, 401, query);
        t.equal(
          answer.headers.get('www-authenticate'),
          'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="300"',
        );
        t.match(await answer.json(), { status: 401, code: 'insufficient_user_authentication' });
        t.equal(await status(url, `GET /admin/users${query}`), '401');
        t.equal(seen.length, 0);
        t.equal(
          await status(plain.url, `GET /admin/users${query}`, [authorization]),
          '201',
          'not by default',
        );
      }
      if (proxy.name !== 'nginx') return;
      t.equal(await status(url, 'GET /orders?page=2', [authorization]), '201', 'not elsewhere');
      seen.length = 0;
      const paths = [...spellings(SEED, 500, 'admin'), '/ADMIN/x', '/admin', '/%61dmin/', '/x/%2e%2e/admin/'];
      for (let i = 0; i < paths.length; i += 50)
        await Promise.all(paths.slice(i, i + 50).map((path) => status(url, `GET ${path}`, [authorization])));
      t.strictSame(
        seen.map(({ url: path }) => path),
        [],
        `reached without a second factor; seed ${SEED}`,
      );
    });

  const caddy = PROXIES.find(({ name }) => name === 'Caddy');
  const { skip = true } = caddy ?? {};
  await t.test(
    'Caddy’s file without the ? after verify: a client demands more of itself only',
    { skip },
    async (t) => {
      const without = (text: string) =>
        text.replace('scopes}?\n', 'scopes}\n').replace('verify?\n\t\treverse', 'verify\n\t\treverse');
      const { url } = (await caddy?.start(t, upstreams, without)) ?? { url: '' };
      for (const [query, expected] of [
        ['?demand_acr=mfa', '401'],
        ['?demand_acr=other', '401'],
        ['?demand_max_age=300', '201'],
        ['?page=2', '201'],
      ] as const)
        t.equal(await status(url, `GET /items${query}`, [authorization]), expected, query);
    },
  );
});

test('for pages of another origin, preflights pass and nothing else does', async (t) => {
  const { service, seen, upstreams } = await aSite(t);
  const { user, access_token: token } = await signUpOver(service.url, anAccount());
  const identity = [String(user.id), user.username, String(claimsOf(token).sid), 'access', '', ''];
  const preflight = ['Origin: https://app.example', 'Access-Control-Request-Method: POST'];
  const asked = [...preflight, 'Access-Control-Request-Headers: authorization,content-type'];
  /** What the proxies set themselves, besides. */
  const expected = ['content-length', 'x-forwarded-for', ...OF_VERIFY, ...OF_THE_PROXY, 'transfer-encoding'];
  const withPages: (text: string) => string = (text) => text.replaceAll('#cors ', '');
  const urls: [name: string, url: string][] = [];

  for (const proxy of PROXIES)
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const plain = await proxy.start(t, upstreams);
      const { url } = await proxy.start(t.parent as Test, upstreams, withPages);
      urls.push([proxy.name, url]);
      seen.length = 0;
      t.equal(await status(plain.url, 'OPTIONS /orders', asked), '401', 'unless the lines are there');
      t.equal(seen.length, 0);

      for (const [how, lines] of Object.entries({
        not: [],
        'with a token': [`Authorization: Bearer ${token}`],
        'as another method': ['X-HTTP-Method-Override: DELETE', 'X-Method-Override: DELETE'],
        'with all that an application takes': OF_THE_APPLICATION.filter(
          (line) => !/^(Origin|Access|Content-Length)/.test(line),
        ),
        ...FORGED,
      })) {
        seen.length = 0;
        const title = `a preflight, changed: ${how}`;
        t.equal(await status(url, 'OPTIONS /orders?page=2', [...asked, ...lines], 'ok'), '201', title);
        t.match(seen, [{ method: 'OPTIONS', url: '/orders?page=2' }], title);
        const { origin, ...headers } = seen[0]?.headers ?? {};
        const {
          'access-control-request-method': method,
          'access-control-request-headers': names,
          ...others
        } = headers;
        t.strictSame(
          [origin, method, names],
          ['https://app.example', 'POST', 'authorization,content-type'],
          title,
        );
        t.strictSame(
          Object.keys(others).filter((name) => !expected.includes(name)),
          [],
          title,
        );
        t.equal(others.authorization, undefined, title);
        isIdentity(t, seen[0], [], title);
      }

      for (const [framing, body] of [
        ['Content-Length: 1', '1'],
        ['Content-Length: 20000', 'x'.repeat(20_000)],
        ['Transfer-Encoding: chunked', '1\r\n1\r\n0\r\n\r\n'],
      ] as const) {
        seen.length = 0;
        const answer = await status(url, 'OPTIONS /orders', [...asked, framing], body);
        t.match(answer, /^(201|400)$/, framing);
        t.strictSame(
          seen.map((request) => request.body),
          answer === '201' ? [''] : [],
          'without the body, or not at all',
        );
      }

      seen.length = 0;
      for (const [line, headers] of [
        ...['GET', 'HEAD', 'POST', 'DELETE', 'TRACE', 'options'].map(
          (name) => [`${name} /orders`, asked] as const,
        ),
        ['POST /orders', [...asked, 'X-HTTP-Method-Override: OPTIONS']],
        ['OPTIONS /orders', asked.filter((header) => !header.startsWith('Origin'))],
        ['OPTIONS /orders', asked.filter((header) => !header.includes('Request-Method'))],
        ['OPTIONS /orders', ['Origin:', 'Access-Control-Request-Method: POST']],
        ['OPTIONS /orders', ['Origin: https://app.example', 'Access-Control-Request-Method:']],
        ['OPTIONS /orders', []],
      ] as const)
        t.match(await status(url, line, [...headers]), /^40[015]$/, `${line} ${headers.join(', ')}`);
      t.strictSame(seen, [], 'nothing that is almost a preflight passes');
      await status(url, 'OPTIONS /api/auth', asked);
      t.strictSame(seen, [], 'Latchkey answers those for its own API');

      for (const method of ['POST', 'OPTIONS']) {
        seen.length = 0;
        const response = await fetch(`${url}/orders`, { method, headers: bearer(token) });
        t.equal(response.status, 201);
        t.equal(response.headers.get('access-control-allow-origin'), null, 'the application’s own');
        isIdentity(t, seen[0], identity, method);
      }
      const refused = await fetch(`${url}/orders`, { headers: bearer('x.y.z') });
      t.equal(refused.status, 401);
      t.equal(refused.headers.get('access-control-allow-origin'), '*');
      t.match(refused.headers.get('access-control-expose-headers'), 'WWW-Authenticate');
    });

  await t.test('a page can read an outage too', async (t) => {
    await service.stop();
    for (const [name, url] of urls) {
      await outage(t, name, url, token);
      const { headers } = await fetch(`${url}/orders`, { headers: bearer(token) });
      t.equal(headers.get('access-control-allow-origin'), '*', name);
      t.match(headers.get('access-control-expose-headers'), 'Retry-After', name);
    }
  });
});

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
  const upstreams = {
    'http://latchkey:3000': await listen(t, verify),
    'http://app:8081': await startApplication(t, seen),
  };
  opsPort = new URL(upstreams['http://latchkey:3000']).port;
  for (const proxy of PROXIES) {
    await t.test(proxy.name, { skip: proxy.skip }, async (t) => {
      const { url } = await proxy.start(t, upstreams);
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

/**
 * The identity headers that the application got, in any spelling and in trailers too, equal the expected ones.
 * @param expected the values in the order of NAMES, or [] for no identity. The header of an empty one may be absent.
 */
function isIdentity(t: Test, request: Seen | undefined, expected: readonly string[], title = ''): void {
  if (!request) return void t.fail(`${title}: no request arrived`);
  const { rawHeaders, rawTrailers } = request;
  t.notOk([...rawHeaders, ...rawTrailers].includes('spoofed'), title);
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const ours = names.filter((name) => /^x[^a-z0-9]auth[^a-z0-9]/.test(name)).sort();
  const wanted = expected.flatMap((value, i) => {
    const name = NAMES[i]?.toLowerCase() ?? '';
    return value !== '' || ours.includes(name) ? [name] : [];
  });
  t.strictSame(ours, wanted.sort(), `${title}: each header once, and no other`);
  const values = NAMES.map((name) => request.headers[name.toLowerCase()] ?? '');
  if (expected.length > 0) t.strictSame(values, expected, title);
}

/** The status of a request that `fetch` would refuse to send. */
function status(url: string, line: string, headers: string[] = [], body = ''): Promise<string | undefined> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () =>
      socket.write(`${line} HTTP/1.1\r\n${['Host: x', ...headers].join('\r\n')}\r\n\r\n${body}`),
    );
    socket.on('data', (chunk) => {
      received = (received + chunk.toString()).replace(/^(?:HTTP\/1\.1 100 .*?\r\n\r\n)+/s, '');
      if (received.includes('\r\n\r\n')) socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1]);
    });
  });
}

async function outage(t: Test, title: string, url: string, token: string): Promise<void> {
  const response = await fetch(url, { headers: bearer(token) });
  t.equal(response.status, 503, title);
  t.match(response.headers.get('retry-after'), /^[1-9]\d*$/, title);
  t.match(response.headers.get('content-type'), 'application/problem+json', title);
  t.match(await response.json(), { status: 503 }, title);
}
