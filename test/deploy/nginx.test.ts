import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type Test } from 'tap';
import { anAccount, bearer } from '../support/client.ts';
import { startDeployedNginx } from '../support/deployed-nginx.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { logLines } from '../support/log-lines.ts';
import { signUpOver, sixOperationsOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { ready, startService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import type { Environment } from '../../src/config.ts';

const skip = toolsMissing('nginx');
const AUTH_HEADERS = ['x-auth-user', 'x-auth-username', 'x-auth-session', 'x-auth-token-type'] as const;

test('the six operations work through nginx as they do without', { skip }, async (t) => {
  const { url } = await behindNginx(t);
  await sixOperationsOver(t, url);
});

test('the application is told who asks, and gets no token', { skip }, async (t) => {
  const { url, seen, service } = await behindNginx(t);
  const { user, access_token: token } = await signUpOver(url, anAccount());
  const response = await fetch(`${url}/orders?page=2`, {
    method: 'POST',
    headers: { ...bearer(token), 'content-type': 'text/plain' },
    body: 'two of them',
  });
  t.equal(response.status, 201);
  const [request] = seen;
  t.match(request, { method: 'POST', url: '/orders?page=2', body: 'two of them' });
  t.match(request?.headers, {
    'x-auth-user': String(user.id),
    'x-auth-username': user.username,
    'x-auth-session': /^\d+$/,
    'x-auth-token-type': 'access',
    'x-forwarded-for': '127.0.0.1',
  });
  t.notOk(request?.headers.authorization, 'no token');

  const verified = () => logLines(service.log()).find(({ route }) => String(route).endsWith('/verify'));
  await until(() => verified() !== undefined);
  t.equal(verified()?.reqId, request?.headers['x-request-id'], 'one id from nginx to the application');
});

test('nobody can say who they are', { skip }, async (t) => {
  const { url, seen } = await behindNginx(t);
  const spoofed = Object.fromEntries(
    AUTH_HEADERS.flatMap((name) => [
      [name, 'spoofed'],
      [name.replaceAll('-', '_'), 'spoofed'],
    ]),
  );
  t.equal((await fetch(`${url}/orders`, { headers: spoofed })).status, 401);
  t.equal(seen.length, 0, 'without a token nothing reaches the application');

  const { user, access_token: token } = await signUpOver(url, anAccount());
  const forwarded = { 'x-forwarded-for': '203.0.113.9', 'x-request-id': 'theirs' };
  t.equal(
    (await fetch(`${url}/orders`, { headers: { ...spoofed, ...forwarded, ...bearer(token) } })).status,
    201,
  );
  const { rawHeaders = [], headers } = seen[0] ?? {};
  t.notOk(rawHeaders.includes('spoofed'));
  t.equal(headers?.['x-auth-user'], String(user.id));
  t.equal(headers?.['x-forwarded-for'], '127.0.0.1');
});

test('whoever has no good token is refused by nginx itself', { skip }, async (t) => {
  const { url, seen } = await behindNginx(t);
  const { refresh_token: refresh } = await signUpOver(url, anAccount());
  const none = await fetch(`${url}/orders`);
  t.strictSame([none.status, none.headers.get('www-authenticate')], [401, 'Bearer']);
  const wrong = await fetch(`${url}/orders`, { headers: bearer(refresh) });
  t.equal(wrong.status, 401);
  t.match(wrong.headers.get('www-authenticate'), 'error="invalid_token"');
  for (const path of [
    '/api/auth/..%2f..%2forders',
    '/_verify',
    '/health/ready',
    '/metrics',
    '/api/authority',
    '/API/USER',
  ])
    t.equal(
      (await fetch(url + path, { headers: bearer(refresh) })).status,
      path === '/_verify' ? 404 : 401,
      path,
    );
  t.equal(seen.length, 0);
});

test(
  'an outage is 503 with Retry-After, and an error of the application its own',
  { skip: skip || redisMissing },
  async (t) => {
    const redis = testRedis(t);
    const proxy = await faultProxy(t, redis.url);
    const { url, nginx, service, seen } = await behindNginx(t, {
      REDIS_URL: proxy.url,
      REDIS_PREFIX: redis.prefix,
    });
    const { access_token: token } = await signUpOver(url, anAccount());
    const broken = await fetch(`${url}/broken`, { headers: bearer(token) });
    t.strictSame([broken.status, await broken.text()], [500, 'the application failed']);

    proxy.set('refuse');
    await outage(t, url, token);
    await service.stop();
    await outage(t, url, token);
    t.equal(seen.length, 1);
    t.equal(nginx.log(), '', 'no request is written down, not even one that failed');
  },
);

test('an address that a client makes up does not get round a limit', { skip }, async (t) => {
  const { url } = await behindNginx(t, { RATE_LIMIT_SIGNUP: '2/600' });
  const statuses: number[] = [];
  for (const last of [1, 2, 3]) {
    const response = await fetch(`${url}/api/auth/signup`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': `203.0.113.${last}` },
      body: JSON.stringify(anAccount()),
    });
    statuses.push(response.status);
  }
  t.strictSame(statuses, [200, 200, 429]);
});

test('the application of compose.yaml says who asks', { skip }, async (t) => {
  const app = await startDeployedNginx(t, 'app.conf');
  const { url } = await behindNginx(t, {}, app.url);
  const { user, access_token: token } = await signUpOver(url, anAccount());
  const answer = await fetch(url, { headers: bearer(token) });
  t.match(await answer.text(), new RegExp(`^user ${user.id}, ${user.username}\nsession \\d+, access\n$`));
});

interface Seen extends Pick<IncomingMessage, 'method' | 'url' | 'headers' | 'rawHeaders'> {
  body: string;
}

/** The service and an application, behind nginx as compose.yaml has it. */
async function behindNginx(t: Test, env: Environment = {}, app?: string) {
  const database = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: database.url, TRUST_PROXY: 'loopback', ...env });
  await ready(service);
  const seen: Seen[] = [];
  const application = app ?? (await startApplication(t, seen));
  const nginx = await startDeployedNginx(t, 'nginx.conf', {
    'http://latchkey:3000': service.url,
    'http://app:8081': application,
  });
  return { url: nginx.url, nginx, service, seen };
}

async function startApplication(t: Test, seen: Seen[]): Promise<string> {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      const { method, url, headers, rawHeaders } = request;
      seen.push({ method, url, headers, rawHeaders, body });
      if (url === '/broken') response.writeHead(500).end('the application failed');
      else response.writeHead(201).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function outage(t: Test, url: string, token: string): Promise<void> {
  const response = await fetch(`${url}/orders`, { headers: bearer(token) });
  t.equal(response.status, 503);
  t.match(response.headers.get('retry-after'), /^[1-9]\d*$/);
  t.match(response.headers.get('content-type'), 'application/problem+json');
  t.match(await response.json(), { status: 503, code: 'unavailable' });
}
