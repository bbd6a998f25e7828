import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createVerifier, type VerifierError } from '@latchkey/verifier';
import { test, type Test } from 'tap';
import { agentIsReady, startAgent, type Agent } from '../../packages/agent/test/agent.ts';
import type { Environment } from '../../src/config/config.ts';
import { exchangeForm } from '../support/audiences.ts';
import { basic } from '../support/registered-service.ts';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { valueOf } from '../support/exposition.ts';
import { freePort } from '../support/free-port.ts';
import { latchkey } from '../support/latchkey.ts';
import {
  createLimitedOver,
  createLongLivedOver,
  logOutOver,
  refreshOver,
  signUpOver,
  verifyOver,
} from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { aReset } from '../support/resets.ts';
import { readyService } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

/** A Latchkey in a process of its own, two registered services, and how to start an agent for one of them. */
async function aWorld(t: Test, settings: Environment = {}) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const url = `http://127.0.0.1:${await freePort()}`;
  const own = { DATABASE_URL, PORT: new URL(url).port, ISSUER: url };
  const start = () => readyService(t, { ...own, ...settings });
  const first = await start();
  const create = async (name: string, ...options: string[]) => {
    const { stdout } = await latchkey(['client', 'create', name, '--json', ...options], { DATABASE_URL });
    const {
      client_id: serviceId = '',
      secret = '',
      client_secret = secret,
    } = JSON.parse(stdout) as Record<string, string>;
    return { serviceId, secret: client_secret };
  };
  const client = await create('shop');
  const env = {
    LATCHKEY_URL: url,
    LATCHKEY_AUDIENCE: 'latchkey',
    LATCHKEY_CLIENT_ID: client.serviceId,
    LATCHKEY_CLIENT_SECRET: client.secret,
  };
  return { url, databaseUrl: DATABASE_URL, start, service: first, create, client, env };
}

test('the agent answers as Latchkey does', async (t) => {
  const { url, env, client, create } = await aWorld(t);
  const agent = await startAgent(t, env);
  await agentIsReady(agent);
  const [pair, ended] = [await signUpOver(url), await signUpOver(url)];
  const { longlived_token: llt } = await createLongLivedOver(url, pair.access_token);
  await create('orders', '--audience', 'orders');
  const exchange = await fetch(`${url}/api/auth/token`, {
    method: 'POST',
    headers: bearer(pair.access_token),
    body: new URLSearchParams(exchangeForm(pair.access_token, 'orders')),
  });
  const { access_token: exchanged = '' } = (await exchange.json()) as Record<string, string>;
  t.match(exchanged, /^ey/);
  const good = pair.access_token;
  await logOutOver(url, ended.access_token);
  await until(
    async () => (await fetch(`${agent.url}/verify`, { headers: bearer(ended.access_token) })).status === 401,
  );

  const requests: [what: string, headers: string[], method?: string, path?: string][] = [
    ['an access token', [`Bearer ${good}`]],
    ['a long-lived token', [`Bearer ${llt}`]],
    ['the scheme in lower case, and more spaces', [`bearer   ${good} `]],
    ['a refresh token', [`Bearer ${pair.refresh_token}`]],
    ['a token for another audience', [`Bearer ${exchanged}`]],
    ['a token that has ended', [`Bearer ${ended.access_token}`]],
    ['a changed signature', [`Bearer ${good.slice(0, -6)}AAAAAA`]],
    ['no JWT', ['Bearer x']],
    ['two words', [`Bearer ${good} x`]],
    ['no token', []],
    ['an empty scheme', ['Bearer ']],
    ['another scheme', ['Basic eDp4']],
    ['two headers, the first good', [`Bearer ${good}`, 'Bearer x']],
    ['two headers, the second good', ['Bearer x', `Bearer ${good}`]],
    ...['HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method): [string, string[], string] => [
      method,
      [`Bearer ${good}`],
      method,
    ]),
    ['a path below', [`Bearer ${good}`], 'GET', '/orders/7?audience=orders'],
    ['a query', [`Bearer ${good}`], 'GET', '?x=1'],
    ['an upgrade', [`Bearer ${good}\r\nConnection: Upgrade\r\nUpgrade: websocket`]],
    ['a chunked body', [`Bearer ${good}\r\nTransfer-Encoding: chunked`], 'POST'],
  ];
  for (const [what, authorizations, method = 'GET', path = ''] of requests) {
    const ask = async (base: string) => {
      const lines = authorizations.map((each) => `Authorization: ${each}\r\n`).join('');
      const close = lines.includes('Connection:') ? '' : 'Connection: close\r\n';
      const body = lines.includes('chunked') ? '2\r\nab\r\n0\r\n\r\n' : '';
      const { pathname, origin } = new URL(base);
      const text = `${method} ${pathname}${path} HTTP/1.1\r\nHost: x\r\n${close}${lines}\r\n${body}`;
      // After HEAD no body follows.
      const [head = ''] = (await exchangeOnce(origin, text)).split('\r\n\r\n');
      const status = Number(head.split(' ')[1]);
      const names = /^(x-auth-(?!username)[\w-]+|www-authenticate|retry-after|cache-control): .*$/gim;
      return { status, headers: (head.match(names) ?? []).map((line) => line.toLowerCase()).sort() };
    };
    t.strictSame(await ask(`${agent.url}/verify`), await ask(`${url}/api/auth/verify`), what);
  }

  const introspect = async (base: string, token: string) => {
    const response = await fetch(base, {
      method: 'POST',
      headers: basic(client),
      body: new URLSearchParams({ token }),
    });
    const answer = (await response.json()) as { username?: string };
    delete answer.username;
    return { status: response.status, answer, audience: response.headers.get('x-latchkey-audience') };
  };
  for (const token of [good, llt, ended.access_token, pair.refresh_token, exchanged, 'x'])
    t.strictSame(
      await introspect(`${agent.url}/introspect`, token),
      await introspect(`${url}/api/auth/introspect`, token),
    );

  // Of all these, Latchkey was asked about the long-lived token only, and once; and at the start whether it may be asked.
  const metrics = await (await fetch(`${agent.opsUrl}/metrics`)).text();
  const asked = { path: '/api/auth/introspect', outcome: '200' };
  t.equal(valueOf(metrics, 'latchkey_agent_latchkey_requests_total', asked), 2);
  t.equal(valueOf(metrics, 'latchkey_agent_checks_total', { outcome: 'refused', reason: 'audience' }), 2);
  t.equal(valueOf(metrics, 'latchkey_agent_ready'), 1);
  t.equal(valueOf(metrics, 'latchkey_agent_cached_tokens'), 3);
  t.ok(valueOf(metrics, 'latchkey_agent_feed_age_seconds') < 10);

  const refusals = agent.lines().filter(({ code }) => code === 'invalid_token');
  t.ok(refusals.length > 0 && refusals.length <= 20, `${refusals.length} lines`);
  for (const token of [good, llt, pair.refresh_token, exchanged]) t.notMatch(agent.log(), token);
});

test('a token of a service is accepted only if AGENT_ACCEPT says so', async (t) => {
  const { url, env, create } = await aWorld(t);
  const orders = await create('orders', '--audience', 'orders');
  const caller = await create('caller', '--may', 'call:orders', '--roles', 'stock:read');
  const form = new URLSearchParams({ grant_type: 'client_credentials', audience: 'orders' });
  const ask = async () =>
    fetch(`${url}/api/auth/token`, { method: 'POST', headers: basic(caller), body: form });
  await until(async () => (await ask()).status === 200);
  const { access_token: token } = (await (await ask()).json()) as { access_token: string };
  const ofOrders = {
    ...env,
    LATCHKEY_AUDIENCE: 'orders',
    LATCHKEY_CLIENT_ID: orders.serviceId,
    LATCHKEY_CLIENT_SECRET: orders.secret,
  };
  const verify = async (accept: string) => {
    const agent = await startAgent(t, { ...ofOrders, AGENT_ACCEPT: accept });
    await agentIsReady(agent);
    return fetch(`${agent.url}/verify`, { headers: bearer(token) });
  };
  t.equal((await verify('access')).status, 401);
  const taken = await verify('access,service');
  t.equal(taken.status, 200);
  t.match(Object.fromEntries(taken.headers), {
    'x-auth-token-type': 'service',
    'x-auth-client': caller.serviceId,
    'x-auth-roles': 'stock:read',
    'x-auth-user': '',
    'x-auth-session': '',
    'x-auth-username': '',
  });
});

const SCOPE = 'orders:read';

/** A user with a long-lived and a limited token. */
interface Owner {
  account: ReturnType<typeof anAccount>;
  pair: Pair;
  tokens: { id: number; token: string }[];
}

test('verifier and agent refuse a long-lived or limited token within a second, however it ended', async (t) => {
  const world = await aWorld(t, { REFRESH_RETRY_WINDOW: '0' });
  const { url, databaseUrl } = world;
  const rights = 'introspect,revoke,revocations,limited,users.write';
  const { serviceId, secret } = await world.create('desk', '--may', rights);
  const byService = basic({ serviceId, secret });
  const agent = await startAgent(t, {
    ...world.env,
    LATCHKEY_CLIENT_ID: serviceId,
    LATCHKEY_CLIENT_SECRET: secret,
  });
  const verifier = createVerifier({ issuer: url, audience: 'latchkey', client: { id: serviceId, secret } });
  t.teardown(() => verifier.close());
  await Promise.all([verifier.ready(), agentIsReady(agent)]);

  const ask = async (line: string, headers: Record<string, string>, body?: object) => {
    const [method = '', path = ''] = line.split(' ');
    const json = body && {
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    };
    const response = await fetch(url + path, { method, headers, ...json });
    if (!response.ok) throw new Error(`${line}: ${response.status} ${await response.text()}`);
    return (await response.json().catch(() => null)) as Record<string, unknown> | null;
  };
  async function anOwner(): Promise<Owner> {
    const account = anAccount();
    const pair = await signUpOver(url, account);
    const made = await ask('POST /api/auth/llt', bearer(pair.access_token), { device: 'tablet' });
    const { id, longlived_token: token } = made as { id: number; longlived_token: string };
    return {
      account,
      pair,
      tokens: [{ id, token }, await createLimitedOver(url, pair.access_token, [SCOPE])],
    };
  }

  const ways: Record<string, (owner: Owner) => Promise<unknown>> = {
    itself: ({ tokens }) => Promise.all(tokens.map(({ token }) => ask('DELETE /api/auth', bearer(token)))),
    'its id': ({ tokens, pair }) =>
      Promise.all(tokens.map(({ id }) => ask(`DELETE /api/auth/${id}`, bearer(pair.access_token)))),
    'RFC 7009': ({ tokens }) =>
      Promise.all(
        tokens.map(({ token }) => {
          const body = new URLSearchParams({ token });
          return fetch(`${url}/api/auth/revoke`, { method: 'POST', headers: byService, body });
        }),
      ),
    'log out everywhere': ({ pair }) => ask('DELETE /api/user/tokens', bearer(pair.access_token)),
    'a new password': ({ pair, account }) =>
      ask('POST /api/user/password', bearer(pair.access_token), {
        current_password: account.password,
        new_password: 'an analytical engine',
        end_long_lived: true,
      }),
    'a reset': async ({ pair }) =>
      ask(
        'POST /api/auth/password-reset',
        {},
        {
          reset_token: await aReset(databaseUrl, pair.user.id),
          password: 'an analytical engine',
        },
      ),
    theft: async ({ pair }) => {
      const { access_token } = (await (await refreshOver(url, pair.refresh_token)).json()) as Pair;
      await verifyOver(url, access_token);
      t.equal((await refreshOver(url, pair.refresh_token)).status, 401);
    },
    'a service': ({ pair }) => ask(`DELETE /api/users/${pair.user.id}/tokens`, byService),
    disabling: ({ pair }) => ask(`PATCH /api/users/${pair.user.id}`, byService, { disabled: true }),
    deletion: ({ pair }) => ask(`DELETE /api/users/${pair.user.id}`, byService),
  };
  const atLatchkey = `${url}/api/auth/scopes/${SCOPE}/verify`;
  const atAgent = `${agent.url}/scopes/${SCOPE}/verify`;
  const statusAt = async (place: string, token: string) =>
    (await fetch(place, { headers: bearer(token) })).status;
  const isGoodFor = (token: string) =>
    verifier.verify(token, { scope: SCOPE }).then(
      () => 200,
      (error: unknown) => ((error as VerifierError).code === 'invalid_token' ? 401 : 503),
    );
  const took: number[] = [];
  for (const [way, end] of Object.entries(ways)) {
    const owner = await anOwner();
    const statuses = (asking: (token: string) => Promise<number>) =>
      Promise.all(owner.tokens.map(({ token }) => asking(token)));
    const readers = [(token: string) => statusAt(atAgent, token), isGoodFor];
    for (const each of readers) t.strictSame(await statuses(each), [200, 200], `good before ${way}`);
    await end(owner);
    const since = performance.now();
    t.strictSame(await statuses((token) => statusAt(atLatchkey, token)), [401, 401], way);
    await Promise.all(
      readers.map(async (each) => {
        await until(async () => (await statuses(each)).join() === '401,401');
        took.push(performance.now() - since);
      }),
    );
  }
  const [median = Infinity] = took.sort((a, b) => a - b).slice(took.length / 2);
  // Work of others on the machine may hold up one of them.
  t.ok(median < 1000, `refused after ${median.toFixed(0)} ms`);
  t.comment(`at most ${took.at(-1)?.toFixed(0)} ms`);
});

test('started while Latchkey is away, it is not ready and answers 503', async (t) => {
  const { env, start, service, url } = await aWorld(t);
  const early = await signUpOver(url);
  await service.stop();
  const agent = await startAgent(t, env);
  const verify = (token: string) => fetch(`${agent.url}/verify`, { headers: bearer(token) });
  const cold = await verify(early.access_token);
  t.equal(cold.status, 503);
  t.equal(cold.headers.get('retry-after'), '1');
  const [ops, live] = await Promise.all(
    ['ready', 'live'].map((name) => fetch(`${agent.opsUrl}/health/${name}`)),
  );
  t.equal(ops?.status, 503);
  t.strictSame(await ops?.json(), { status: 'starting' });
  t.equal(live?.status, 200);

  const second = await start();
  await agentIsReady(agent);
  // It has keys of its own.
  const { access_token: token } = await signUpOver(url);
  t.equal((await verify(token)).status, 200);
  await second.stop();
  t.equal((await verify(token)).status, 200, 'it goes on without Latchkey');
  t.equal((await fetch(`${agent.opsUrl}/health/ready`)).status, 200);
  t.equal(await agent.stop(), 0);
});

test('bad requests', async (t) => {
  const { env, url } = await aWorld(t);
  const agent = await startAgent(t, env);
  await agentIsReady(agent);
  const { access_token: token } = await signUpOver(url);
  const raw = async (text: string) => {
    const [start = '', body = ''] = (await exchangeOnce(agent.url, text)).split('\r\n\r\n');
    t.match(body, /"request_id":"[\da-f-]{36}"/, text.slice(0, 40));
    return [Number(start.split(' ')[1]), codeOf(body)];
  };
  const head = (line: string, ...headers: string[]) =>
    [`${line} HTTP/1.1`, 'Host: x', 'Connection: close', ...headers, '', ''].join('\r\n');
  const formHead = (length: number) =>
    head('POST /introspect', 'Content-Type: application/x-www-form-urlencoded', `Content-Length: ${length}`);
  const rows: [what: string, text: string, status: number, code: string][] = [
    [
      'a token of 1 MB',
      head('GET /verify', `Authorization: Bearer ${'x'.repeat(1_000_000)}`),
      431,
      'headers_too_large',
    ],
    ['a body of 1 MB', formHead(1_000_000) + 'x'.repeat(1_000_000), 413, 'body_too_large'],
    ['another method', head('GET /introspect'), 405, 'method_not_allowed'],
    ['another type', head('POST /introspect', 'Content-Length: 2') + '{}', 415, 'unsupported_media_type'],
    ['no token', `${formHead(1)}x`, 400, 'validation_failed'],
    ['two tokens', `${formHead(15)}token=x&token=y`, 400, 'validation_failed'],
    ['no HTTP', 'x\r\n\r\n', 400, 'bad_request'],
    ['another path', head('GET /verifyx'), 404, 'not_found'],
  ];
  for (const [what, text, status, code] of rows) t.strictSame(await raw(text), [status, code], what);

  const one = `GET /verify HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`;
  const bad = one.replace('Bearer ', 'Bearer x');
  const last = one.replace('Host', 'Connection: close\r\nHost');
  const pipelined = answersIn(await exchange(agent.url, one + bad + last));
  t.strictSame(
    pipelined.map(({ status }) => status),
    [200, 401, 200],
    'pipelined',
  );

  const idle = await Promise.all(Array.from({ length: 1000 }, () => opened(agent)));
  const half = await opened(agent);
  half.write('GET /verify HTTP/1.1\r\nHost: x\r\nAuthoriz');
  t.equal(
    (await fetch(`${agent.url}/verify`, { headers: bearer(token) })).status,
    200,
    'beside 1,000 idle connections',
  );
  const late = new Promise<string>((resolve) =>
    half.once('data', (chunk) => {
      resolve(chunk.toString());
    }),
  );
  t.match(await late, /^HTTP\/1\.1 408 /, 'a client that stops half-way');
  for (const socket of idle) socket.destroy();
  half.destroy();
  t.equal((await fetch(`${agent.opsUrl}/verify`)).status, 404);
  t.equal((await fetch(`${agent.opsUrl}/metrics`, { method: 'POST' })).status, 405);
});

test('every mistake names its variable', async (t) => {
  const { url, env, create } = await aWorld(t);
  const narrow = await create('narrow', '--may', 'introspect');
  const other = await startAgent(t, env);
  const mistakes: [changes: Record<string, string | undefined>, line: RegExp][] = [
    [
      { LATCHKEY_URL: other.opsUrl, LATCHKEY_ISSUER: url },
      /^LATCHKEY_URL: no Latchkey at http.* answered 404/,
    ],
    [
      { LATCHKEY_ISSUER: 'https://id.example' },
      new RegExp(`^LATCHKEY_ISSUER: .*the setting is https://id\\.example, Latchkey's is ${url}`),
    ],
    [
      { LATCHKEY_AUDIENCE: 'orders' },
      /^LATCHKEY_AUDIENCE: .*the setting is orders, the client's is latchkey/,
    ],
    [{ LATCHKEY_CLIENT_SECRET: 'mistyped' }, /^LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET: .* answered 401/],
    [
      { LATCHKEY_CLIENT_ID: narrow.serviceId, LATCHKEY_CLIENT_SECRET: narrow.secret },
      /^LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET: .*no right `revocations`/,
    ],
  ];
  await Promise.all(
    mistakes.map(async ([changes, line]) => {
      const agent = await startAgent(t, { ...env, ...changes });
      const named = () => agent.lines().filter(({ msg }) => line.test(String(msg)));
      await until(() => named().length > 0);
      t.notMatch(agent.log(), /mistyped/);
      t.equal((await fetch(`${agent.opsUrl}/health/ready`)).status, 503, String(line));
      t.equal(await agent.exited, 1, `${String(line)} ends after 30 s`);
      // A busy machine may answer late, which is no mistake.
      const [warning, last, ...others] = agent
        .lines()
        .filter(({ msg, reason }) => msg !== 'serving' && reason !== 'unreachable');
      t.match(
        [warning, last],
        [
          { level: 'warn', msg: line },
          { level: 'error', msg: /^for 30 s: LATCHKEY_/ },
        ],
      );
      t.strictSame(others, [], 'one line, and one at the end');
    }),
  );

  const taken = new URL(other.url).host;
  const broken = await startAgent(t, {
    LATCHKEY_URL: 'x',
    AGENT_LISTEN: '0.0.0.0:4181',
    AGENT_WHEN_STALE: 'never',
  });
  t.equal(await broken.exited, 1);
  t.strictSame(broken.log().match(/[A-Z]+_[A-Z_]+(?= must be)/g), [
    'LATCHKEY_URL',
    'LATCHKEY_AUDIENCE',
    'AGENT_WHEN_STALE',
    'AGENT_LISTEN',
  ]);
  const inUse = await startAgent(t, { ...env, AGENT_LISTEN: taken });
  t.equal(await inUse.exited, 1);
  t.match(
    inUse.log(),
    `AGENT_LISTEN: cannot listen on ${taken.replace(':', ', port ')}: another process listens there`,
  );
});

test('after SIGTERM it is not ready, finishes and ends', async (t) => {
  const { env, url } = await aWorld(t);
  const agent = await startAgent(t, env);
  await agentIsReady(agent);
  const { access_token: token } = await signUpOver(url);
  const socket = await opened(agent);
  let received = '';
  socket.on('data', (chunk: Buffer) => (received += chunk.toString()));
  socket.write(
    `POST /introspect HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${token.length + 6}\r\n\r\ntok`,
  );
  await sleep(100);
  const ending = agent.stop();
  await until(async () => (await fetch(`${agent.opsUrl}/health/ready`)).status === 503);
  t.strictSame(await (await fetch(`${agent.opsUrl}/health/ready`)).json(), { status: 'draining' });
  await t.rejects(fetch(`${agent.url}/verify`), 'it takes no new connection');
  socket.write(`en=${token}`);
  await until(() => received.includes('"active":true'));
  t.equal(await ending, 0);
});

/** Sends raw bytes, and resolves with what has arrived once the answer's head is complete. */
function exchangeOnce(origin: string, text: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () => socket.write(text));
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString();
      if (!received.includes('\r\n\r\n')) return;
      socket.destroy();
      resolve(received);
    });
    socket.on('error', reject);
  });
}

function opened({ url }: Agent): Promise<Socket> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname, () => {
      resolve(socket);
    });
    socket.on('error', reject);
  });
}

function codeOf(body: string): string {
  return (JSON.parse(body) as { code: string }).code;
}
