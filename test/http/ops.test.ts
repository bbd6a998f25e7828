import { test, type Test } from 'tap';
import { buildOpsApp, type OpsOptions } from '../../src/app.ts';
import { buildTestApp } from '../support/app.ts';
import { valueOf, parseExposition, type Metric } from '../support/exposition.ts';
import { aFactor, firstStep, secondStep } from '../support/factors.ts';
import { assertProblem, refused } from '../support/problem.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { routesOf } from '../support/routes.ts';
import { Writable } from 'node:stream';
import { pino } from 'pino';
import { isFromHere } from '../../src/http/ops.ts';
import { LINE_FORMAT } from '../../src/runtime/logger.ts';
import { logLines } from '../support/log-lines.ts';
import {
  anAccount,
  call,
  createLongLived,
  headerOf,
  logIn,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { documentedMetrics } from '../support/metrics-document.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aStoredSession, forge } from '../support/tokens.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';

test('readiness and the metrics say which build runs', async (t) => {
  const { composition } = await buildTestApp(t);
  const build = { version: '1.2.3', revision: 'a1' };
  const ops = await buildOpsApp({ ...composition.ops, build });
  t.teardown(() => ops.close());
  t.match((await ops.inject('/health/ready')).json(), { status: 'ready', ...build });
  t.equal(
    valueOf(await composition.ops.metrics(), 'latchkey_build_info', {
      ...composition.ops.build,
      node: process.versions.node,
    }),
    1,
  );
});

test('the 404 of the ops port names its paths', async (t) => {
  const { composition } = await buildTestApp(t);
  const ops = await buildOpsApp(composition.ops);
  t.teardown(() => ops.close());
  const response = await ops.inject('/');
  refused(t, response, 404, 'not_found');
  const { detail } = response.json<{ detail: string }>();
  const paths = detail.match(/\/[a-z/-]+/g) ?? [];
  t.equal(paths.length, 4);
  for (const path of paths) t.equal((await ops.inject(path)).statusCode, 200, path);
});

test('a bug on the ops port is logged with its cause', async (t) => {
  const metrics = () => Promise.reject(new TypeError('planted', { cause: new Error('behind it') }));
  const { app, lines } = await ops(t, { metrics });
  const response = await app.inject('/metrics');
  refused(t, response, 500, 'internal_error');
  t.notMatch(response.body, /planted/);
  const { request_id: reqId } = response.json<{ request_id: string }>();
  t.match(lines(), [
    {
      level: 'error',
      msg: 'internal error',
      reqId,
      err: { type: 'TypeError', message: /planted: behind it/ },
    },
  ]);
});

async function ops(t: Test, given: Partial<OpsOptions> = {}) {
  let written = '';
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      written += chunk.toString();
      done();
    },
  });
  const logger = pino({ ...LINE_FORMAT, level: 'info' }, stream);
  const app = await buildOpsApp({
    logger,
    readiness: () =>
      Promise.resolve({ ready: true, draining: false, checks: {}, clock: 'ok', installation: 'ok' }),
    build: { version: '1', revision: 'unknown' },
    metrics: () => Promise.resolve(''),
    ...given,
  });
  t.teardown(() => app.close());
  const url = await app.listen({ host: '127.0.0.1', port: 0 });
  const put = (level: string) => fetch(`${url}/log-level/${level}`, { method: 'PUT' });
  const get = async () => ((await (await fetch(`${url}/log-level`)).json()) as { level: string }).level;
  return { app, url, logger, put, get, lines: () => logLines(written) };
}

test('the level changes at run time, for later requests too', async (t) => {
  const { logger, put, get, lines } = await ops(t);
  logger.child({ reqId: 'before' }).debug('unseen');
  t.equal(await get(), 'info');
  t.equal((await put('debug')).status, 200);
  t.equal(await get(), 'debug');
  logger.child({ reqId: 'after' }).debug('seen');
  t.match(lines(), [
    { msg: 'the log level changes', level: 'warn', from: 'info', to: 'debug' },
    { msg: 'the log level has changed' },
    { reqId: 'after', msg: 'seen' },
  ]);
});

test('a level above warn is refused: warnings always stay in the log', async (t) => {
  const { put, get, lines } = await ops(t);
  for (const level of ['error', 'fatal', 'silent']) t.equal((await put(level)).status, 400, level);
  t.equal(await get(), 'info');
  t.equal((await put('warn')).status, 200);
  t.match(lines(), [{ msg: 'the log level changes' }, { msg: 'the log level has changed', to: 'warn' }]);
});

test('other hosts can read the level but not change it', async (t) => {
  const { app } = await ops(t);
  const from = (remoteAddress: string) =>
    ({ remoteAddress, method: 'PUT', url: '/log-level/debug' }) as const;
  t.equal((await app.inject(from('10.0.0.7'))).statusCode, 403);
  t.equal((await app.inject({ ...from('10.0.0.7'), method: 'GET', url: '/log-level' })).statusCode, 200);
  const here = ['::1', '::ffff:127.0.0.1', '127.0.0.2'];
  const elsewhere = ['10.0.0.7', '::ffff:10.0.0.7', '2001:db8::1', '12.7.0.0', undefined];
  for (const remoteAddress of here) {
    for (const localAddress of here) t.ok(isFromHere({ remoteAddress, localAddress }));
    // A proxy in the pod connects from loopback, but not to loopback.
    for (const localAddress of elsewhere) t.notOk(isFromHere({ remoteAddress, localAddress }));
  }
  for (const remoteAddress of elsewhere) t.notOk(isFromHere({ remoteAddress, localAddress: '127.0.0.1' }));
});

test('a page changes nothing, also if its name leads to this host', async (t) => {
  const changes = (await routesOf(() => ops(t))).filter(({ method }) => !['GET', 'HEAD'].includes(method));
  t.match(changes, [{ method: 'PUT', url: '/log-level/:level' }]);
  const { url, get } = await ops(t);
  const { host, port } = new URL(url);
  const ask = async (method: string, path: string, ...headers: string[]) => {
    const lines = [`${method} ${path} HTTP/1.1`, ...headers, 'Connection: close', 'Content-Length: 0'];
    const [answer] = answersIn(await exchange(url, `${lines.join('\r\n')}\r\n\r\n`));
    return answer;
  };
  const foreign = ['localhost.evil.example', 'evil.example', '127.0.0.1.evil.example', '127.evil.example'];
  const hosts = [...foreign, '10.0.0.7', '[::2]', '[::1].evil.example', 'localhost:1:2', 'evil@localhost'];
  const answered403 = [
    ...[...hosts, ...hosts.map((each) => `${each}:${port}`)].map((each) => [`Host: ${each}`]),
    [`Host: ${host}`, 'Origin: https://evil.example'],
    [`Host: ${host}`, `Origin: ${url}`],
    [`Host: ${host}`, 'Origin: null'],
  ];
  for (const { method, url: path } of changes) {
    for (const headers of answered403) {
      const answer = await ask(method, path.replace(':level', 'debug'), ...headers);
      t.match(answer, { status: 403, body: /"code":"not_local","request_id":"[^"]+"/ }, headers.join());
      t.equal(answer?.header('content-type'), 'application/problem+json');
    }
  }
  t.equal(await get(), 'info');
  for (const local of ['localhost', 'LOCALHOST', '127.0.0.2', '[::1]']) {
    for (const each of [local, `${local}:${port}`])
      t.equal((await ask('PUT', '/log-level/debug', `Host: ${each}`))?.status, 200, each);
  }
  t.equal(
    (await ask('GET', '/log-level', 'Host: 10.0.0.7'))?.status,
    200,
    'probes name the address of the pod',
  );
});

test('an unknown level changes nothing', async (t) => {
  const { url, put, get } = await ops(t);
  for (const level of ['loud', 'INFO', '']) t.not((await put(level)).status, 200, level);
  t.equal(await get(), 'info');
  const response = await fetch(`${url}/log-level/loud`, { method: 'PUT' });
  const [body, header] = [await response.text(), (name: string) => response.headers.get(name) ?? undefined];
  assertProblem(t, { status: response.status, header, body }, 400, 'validation_failed', ['params/level']);
});

const skip = { skip: redisMissing };

/** The service on Redis, and a scrape of its ops port. */
async function scraped(t: Test, env: Record<string, string> = {}) {
  const { url, prefix } = testRedis(t);
  const target = await buildTestApp(t, { env: { REDIS_URL: url, REDIS_PREFIX: prefix, ...env } });
  const ops = await buildOpsApp(target.composition.ops);
  t.teardown(() => ops.close());
  const scrape = async () => {
    const response = await ops.inject('/metrics');
    t.equal(response.statusCode, 200);
    return response.body;
  };
  return { target, ops, scrape };
}

/** The values of each label, as observed. */
function observedLabels({ samples }: Metric): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const { labels } of samples) {
    for (const [label, value] of Object.entries(labels)) {
      if (label === 'le') continue;
      found.set(label, (found.get(label) ?? new Set()).add(value));
    }
  }
  return found;
}

/** Every kind of request, ordinary ones and attacks. */
async function useEverything(target: Awaited<ReturnType<typeof buildTestApp>>) {
  const account = anAccount();
  await signUp(target, account);
  let pair = await logIn(target, account.username);
  pair = pairOf(await refresh(target, pair.refresh_token));
  await verify(target, pair.access_token);
  const { longlived_token: llt, id } = await createLongLived(target, pair.access_token);
  await verify(target, llt);
  await call(target, `DELETE /api/auth/llt/${id}`, { token: pair.access_token });
  await call(target, 'DELETE /api/auth', { token: pair.access_token });
  await call(target, 'GET /nowhere');
  return { account, pair, llt };
}

test('docs/observability.md and a scrape name the same metrics, both ways', skip, async (t) => {
  const secrets = [aSecret(), aSecret()].join();
  const { target, scrape } = await scraped(t, { REFRESH_TOKEN_SECRET: secrets });
  target.composition.start();
  await useEverything(target);
  await until(async () => /^latchkey_purge_last_success\S+ \d/m.test(await scrape()));
  await until(async () => /^latchkey_readers\{/m.test(await scrape()));
  const metrics = parseExposition(await scrape());
  const docs = documentedMetrics();
  t.strictSame([...metrics.keys()].sort(), [...docs.keys()].sort());

  for (const [name, { type, labels }] of docs) {
    const metric = metrics.get(name);
    if (!metric) continue;
    t.equal(metric.type, type, `${name} is a ${type}`);
    t.ok(metric.samples.length > 0, `${name} has data`);
    const found = observedLabels(metric);
    t.strictSame([...found.keys()].sort(), [...labels.keys()].sort(), `${name} has the labels`);
    for (const [label, values] of labels) {
      if (!values) continue;
      const seen = [...(found.get(label) ?? [])].sort();
      const unknown = seen.filter((value) => !values.includes(value));
      t.strictSame(unknown, [], `${name} knows all values of ${label}`);
      // Methods appear with their first request.
      if (label !== 'method') t.strictSame(seen, [...values].sort(), `${name} shows all values of ${label}`);
    }
  }
});

test('a scrape shows the last purge, and the secrets whose key is lost', async (t) => {
  const target = await buildTestApp(t);
  const { composition, databaseUrl } = target;
  const read = async (name: string) => valueOf(await composition.ops.metrics(), name, {});
  const last = 'latchkey_purge_last_success_timestamp_seconds';
  const { user } = await signUp(target);
  await sql(
    databaseUrl,
    `WITH purged AS (INSERT INTO installation VALUES ('last_purge', '0', '2026-01-02T03:04:05Z'))
     INSERT INTO factors (user_id, type, name, created_at, confirmed_at, key_id, secret)
     VALUES (${user.id}, 'totp', 'phone', now(), now(), 'lost', '')`,
  );
  t.notOk(
    parseExposition(await composition.ops.metrics()).get(last)?.samples.length,
    'unknown before it is read',
  );
  composition.start();
  await until(async () => parseExposition(await composition.ops.metrics()).get(last)?.samples.length === 1);
  t.equal(await read(last), Date.parse('2026-01-02T03:04:05Z') / 1000);
  t.equal(await read('latchkey_factor_secrets_without_key'), 1);
});

test('the path that a proxy appends to verify is no label', skip, async (t) => {
  const { target, scrape } = await scraped(t);
  for (const path of ['', '/orders', '/orders/7?page=2', '//x', '/../x'])
    await call(target, `GET /api/auth/verify${path}`);
  const durations = parseExposition(await scrape()).get('http_request_duration_seconds');
  const routes = durations && observedLabels(durations).get('route');
  t.strictSame([...(routes ?? [])].sort(), ['/api/auth/:id', '/api/auth/verify', '/api/auth/verify/*']);
});

test('the memory limit is the one of each scrape', skip, async (t) => {
  const { scrape } = await scraped(t);
  let limit = 768 * 1024 ** 2;
  t.intercept(process, 'constrainedMemory', { value: () => limit });
  t.equal(valueOf(await scrape(), 'latchkey_memory_limit_bytes'), limit);
  limit = 0;
  t.equal(valueOf(await scrape(), 'latchkey_memory_limit_bytes'), 0);
});

test('each request increments its metrics by one', skip, async (t) => {
  const { target, scrape } = await scraped(t, { REFRESH_RETRY_WINDOW: '0' });
  let before = await scrape();
  /** How much the work increments each series. */
  const moved = async (expected: [string, Record<string, string>][], work: () => Promise<unknown>) => {
    await work();
    const after = await scrape();
    for (const [name, labels] of expected) {
      const by = valueOf(after, name, labels) - valueOf(before, name, labels);
      t.equal(by, 1, `${name} ${JSON.stringify(labels)}`);
    }
    before = after;
  };
  const request = (line: string, status: number): [string, Record<string, string>] => {
    const [method = '', route = ''] = line.split(' ');
    return ['http_request_duration_seconds', { method, route, status: String(status) }];
  };
  const outcome = (name: string, value: string): [string, Record<string, string>] => [
    `latchkey_${name}_total`,
    { outcome: value },
  ];
  const error = (code: string): [string, Record<string, string>] => ['latchkey_errors_total', { code }];
  const account = anAccount();
  const login = (password: string, username = account.username) =>
    call(target, 'POST /api/auth', { payload: { username, password } });

  await moved(
    [
      request('POST /api/auth/signup', 200),
      outcome('signups', 'success'),
      ['latchkey_tokens_created_total', { type: 'session' }],
      ['latchkey_hash_duration_seconds', {}],
      ['latchkey_hash_wait_seconds', {}],
      ['latchkey_redis_duration_seconds', { command: 'put' }],
    ],
    () => signUp(target, account),
  );
  await moved([outcome('signups', 'username_taken'), error('username_taken')], () =>
    call(target, 'POST /api/auth/signup', { payload: account }),
  );
  await moved([outcome('signups', 'email_taken')], () =>
    call(target, 'POST /api/auth/signup', { payload: { ...account, username: `x${account.username}` } }),
  );
  await moved([outcome('signups', 'password_refused')], () =>
    call(target, 'POST /api/auth/signup', { payload: { ...anAccount(), password: 'password' } }),
  );
  await moved(
    [outcome('logins', 'password'), error('invalid_credentials'), request('POST /api/auth', 401)],
    () => login('a wrong one'),
  );
  await moved([outcome('logins', 'unknown')], () => login('a wrong one', 'unknown'));
  const other = anAccount();
  const factor = await aFactor(target, await signUp(target, other));
  let login_token = '';
  await moved([outcome('second_steps', 'asked')], async () => {
    login_token = await firstStep(target, other.username);
  });
  await moved([outcome('second_steps', 'wrong'), error('invalid_second_factor')], () =>
    secondStep(target, { login_token, code: factor.code(9) }),
  );
  await moved([outcome('second_steps', 'totp'), outcome('logins', 'success')], () =>
    secondStep(target, { login_token, code: factor.code() }),
  );
  await moved([outcome('second_steps', 'recovery_code')], () =>
    secondStep(target, { login_token, recovery_code: factor.recoveryCodes[0] ?? '' }),
  );
  let pair = await logIn(target, account.username);
  before = await scrape();

  await moved(
    [
      outcome('refreshes', 'current'),
      request('GET /api/auth/refresh', 200),
      ['latchkey_redis_duration_seconds', { command: 'rotate' }],
    ],
    async () => {
      pair = pairOf(await refresh(target, pair.refresh_token));
    },
  );
  await moved(
    [
      ['latchkey_verifications_total', { type: 'access', outcome: 'good' }],
      ['latchkey_signature_checks_total', {}],
      ['latchkey_redis_duration_seconds', { command: 'check' }],
    ],
    () => verify(target, pair.access_token),
  );
  const llt = await createLongLived(target, pair.access_token);
  before = await scrape();
  await moved([['latchkey_verifications_total', { type: 'llt', outcome: 'good' }]], () =>
    verify(target, llt.longlived_token),
  );
  await moved([['latchkey_tokens_revoked_total', { cause: 'owner' }]], () =>
    call(target, `DELETE /api/auth/llt/${llt.id}`, { token: pair.access_token }),
  );
  await moved([['latchkey_verifications_total', { type: 'llt', outcome: 'revoked' }]], () =>
    verify(target, llt.longlived_token),
  );
  await moved([['latchkey_tokens_refused_total', { reason: 'type' }]], () =>
    verify(target, pair.refresh_token),
  );
  const forged = `${pair.access_token.slice(0, -8)}AAAAAAAA`;
  await moved([['latchkey_tokens_refused_total', { reason: 'signature' }]], () => verify(target, forged));
  await moved([['latchkey_tokens_refused_total', { reason: 'malformed' }]], () => verify(target, 'x'));
  const unknown = forge({ ...headerOf(pair.access_token), kid: 'x' }, {}, KEYS.ES256());
  await moved([['latchkey_tokens_refused_total', { reason: 'unknown_key' }]], () => verify(target, unknown));
  await moved([request('GET none', 404), error('not_found')], () => call(target, 'GET /nowhere'));
  await moved([request('other /api/auth', 405)], () => call(target, 'PROPFIND /api/auth'));

  const now = Date.now() * 1000;
  const session = await aStoredSession(target, {
    latest: now - 60e6,
    parent: now - 90e6,
    first: now - 60e6,
    confirmed: true,
  });
  before = await scrape();
  await moved([['latchkey_tokens_refused_total', { reason: 'expired' }]], () =>
    verify(target, session.mint('access', now - 7200e6)),
  );
  await moved(
    [
      outcome('read_throughs', 'rebuilt'),
      outcome('refreshes', 'reused'),
      ['latchkey_tokens_revoked_total', { cause: 'reuse' }],
      error('token_reused'),
    ],
    () => refresh(target, session.mint('refresh', now - 90e6)),
  );
});

test('a logout everywhere counts each ended token', skip, async (t) => {
  const { target, scrape } = await scraped(t);
  const account = anAccount();
  await signUp(target, account);
  const { access_token: token } = await logIn(target, account.username);
  await createLongLived(target, token);
  for (let i = 0; i < 2; i++) await call(target, 'DELETE /api/user/tokens', { token });
  const metrics = await scrape();
  t.equal(valueOf(metrics, 'latchkey_tokens_revoked_total', { cause: 'everywhere' }), 3);
  t.equal(valueOf(metrics, 'latchkey_tokens_revoked_total', { cause: 'owner' }), 0);
});

test('a theft counts separately the long-lived tokens that end with the session', skip, async (t) => {
  const { target, scrape } = await scraped(t, { REFRESH_RETRY_WINDOW: '0' });
  const { access_token: token, refresh_token: stolen } = await signUp(target);
  for (let i = 0; i < 2; i++) await createLongLived(target, token);
  await verify(target, pairOf(await refresh(target, stolen)).access_token);
  t.equal((await refresh(target, stolen)).statusCode, 401);
  const metrics = await scrape();
  t.equal(valueOf(metrics, 'latchkey_tokens_revoked_total', { cause: 'reuse' }), 1);
  t.equal(valueOf(metrics, 'latchkey_tokens_revoked_total', { cause: 'reuse_llt' }), 2);
});

test('metrics show a store outage and a limit that was reached', skip, async (t) => {
  const { target, scrape } = await scraped(t, { RATE_LIMIT_LOGIN: '1/600' });
  const payload = { username: 'unknown', password: 'a wrong one' };
  for (let i = 0; i < 2; i++) await call(target, 'POST /api/auth', { payload });
  const up = await scrape();
  t.equal(valueOf(up, 'latchkey_errors_total', { code: 'rate_limited', reason: 'login' }), 1);
  for (const dependency of ['database', 'sessions']) {
    t.equal(valueOf(up, 'latchkey_dependency_up', { dependency }), 1, dependency);
  }
  t.equal(valueOf(up, 'latchkey_ready'), 1);
  t.equal(valueOf(up, 'latchkey_postgres_pool_size'), 10);
  target.composition.drain();
  t.equal(valueOf(await scrape(), 'latchkey_ready'), 0, 'while draining');
});

test('background jobs report their last success and their failures', async (t) => {
  const target = await buildTestApp(t);
  target.composition.start();
  const scrape = () => target.composition.ops.metrics();
  const started = Date.now() / 1000;
  for (const task of [
    'write-behind',
    'revocation sweep',
    'tombstone renewal',
    'user sweep',
    'user renewal',
    'reuse queue',
    'client reload',
    'write check',
    'clock check',
  ]) {
    const labels = { task };
    const name = 'latchkey_background_last_success_timestamp_seconds';
    await until(async () => valueOf(await scrape(), name, labels) >= started);
    t.pass(task);
  }
  const metrics = parseExposition(await scrape());
  t.strictSame(metrics.get('latchkey_redis_duration_seconds')?.samples, [], 'there is no Redis here');
});
