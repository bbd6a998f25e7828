// suite: e2e
import { test, type Test } from 'tap';
import { anAccount } from '../../support/client.ts';
import { logLines } from '../../support/log-lines.ts';
import { startOtlpReceiver, type ReceivedSpan } from '../../support/otlp-receiver.ts';
import { redisMissing, testRedis } from '../../support/redis.ts';
import { readyService } from '../../support/service.ts';
import { until } from '../../support/until.ts';

const skip = { skip: redisMissing };

const TRACE_ID = 'af7651916cd43dd8448eb211c80319c0';
const PARENT_ID = 'b7ad6b7169203331';
const TRACEPARENT = `00-${TRACE_ID}-${PARENT_ID}-01`;

/** The service as a process on both stores. It prints a line for each module of OpenTelemetry that it loads. */
async function traced(t: Test, env: Record<string, string>) {
  const { url: redisUrl, prefix } = testRedis(t);
  const hooks = `export async function load(url, context, next) {
    if (url.includes('/@opentelemetry/')) console.error('LOADED ' + url);
    return next(url, context);
  }`;
  const data = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const loader = data(`import { register } from 'node:module'; register(${JSON.stringify(data(hooks))});`);
  const service = await readyService(t, {
    REDIS_URL: redisUrl,
    REDIS_PREFIX: prefix,
    NODE_OPTIONS: `--import=${loader}`,
    ...env,
  });
  const call = async (
    line: string,
    options: { token?: string; body?: object; traceparent?: string } = {},
  ) => {
    const [method = '', path = ''] = line.split(' ');
    const { token, body, traceparent = TRACEPARENT } = options;
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: {
        traceparent,
        ...(token && { authorization: `Bearer ${token}` }),
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: response.status, body: await response.text() };
  };
  return { service, call };
}

const isServer = ({ kind }: ReceivedSpan) => kind === 2;

test('the caller’s trace continues through HTTP, Redis, PostgreSQL and hashing', skip, async (t) => {
  const receiver = await startOtlpReceiver(t);
  const { service, call } = await traced(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '100',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
  });
  const account = anAccount();
  const signedUp = await call('POST /api/auth/signup', { body: account });
  t.equal(signedUp.status, 200, signedUp.body);
  const pair = JSON.parse(signedUp.body) as Record<'access_token' | 'refresh_token', string>;
  await call('GET /api/auth/refresh', { token: pair.refresh_token });
  await call('GET /api/auth/verify', { token: pair.access_token });
  await call('POST /api/auth', { body: { username: account.username, password: 'a wrong one' } });
  await until(() => receiver.spans().filter(isServer).length >= 4);

  const spans = receiver.spans();
  const below = (name: string) => {
    const request = spans.find((span) => isServer(span) && span.name === name);
    t.match(request, { traceId: TRACE_ID, parentSpanId: PARENT_ID }, `${name} is below its caller`);
    const children = spans.filter(({ parentSpanId }) => parentSpanId === request?.spanId);
    t.ok(
      children.every(({ traceId }) => traceId === TRACE_ID),
      'one trace',
    );
    return { request, names: children.map((span) => span.name) };
  };
  const signUp = below('POST /api/auth/signup');
  for (const name of ['scrypt hash', 'redis now', 'redis put', 'postgresql insert', 'postgresql select']) {
    t.ok(signUp.names.includes(name), name);
  }
  t.strictSame(signUp.request?.attributes, {
    'http.request.method': 'POST',
    'http.response.status_code': 200,
    'http.route': '/api/auth/signup',
  });
  t.strictSame(below('GET /api/auth/refresh').names, ['redis rotate']);
  const verified = below('GET /api/auth/verify');
  t.strictSame(verified.names, ['redis checkAccess']);
  t.match(verified.request, { status: { code: 0 }, attributes: { 'http.response.status_code': 401 } });
  const logIn = below('POST /api/auth');
  t.strictSame(logIn.names.sort(), ['password verify', 'postgresql select', 'redis reserve']);
  t.match(receiver.resources()[0], { 'service.name': 'latchkey', 'deployment.environment.name': 'test' });

  t.strictSame(
    spans.filter(({ traceId }) => traceId !== TRACE_ID),
    [],
    'background work makes no spans',
  );

  // The log is buffered.
  const tracedLines = () => logLines(service.log()).filter(({ trace_id: id }) => id === TRACE_ID);
  await until(() => tracedLines().filter(({ msg }) => msg === 'request').length >= 4);
  const lines = tracedLines();
  const requests = lines.filter(({ msg }) => msg === 'request');
  t.equal(requests.length, 4, 'each request’s line has its trace id');
  const serverIds = new Set(spans.filter(isServer).map(({ spanId }) => spanId));
  t.ok(
    requests.every(({ span_id: id }) => serverIds.has(String(id))),
    'and its span',
  );
  t.match(service.log(), /^LOADED /m, 'the test sees loaded modules');
});

for (const protocol of ['http/json', 'http/protobuf'] as const) {
  test(`spans sent as ${protocol} hold no secret`, skip, async (t) => {
    const receiver = await startOtlpReceiver(t);
    const { service, call } = await traced(t, {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${receiver.url}/v1/traces`,
      ...(protocol === 'http/json' && { OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: protocol }),
      OTEL_BSP_SCHEDULE_DELAY: '100',
    });
    const account = anAccount({ password: 'Hunter2-hunter2', name: 'Ada Secretive' });
    const signedUp = await call('POST /api/auth/signup', { body: account });
    const pair = JSON.parse(signedUp.body) as Record<'access_token' | 'refresh_token', string>;
    await call('POST /api/auth', { body: { username: account.email, password: account.password } });
    await call(`GET /api/auth/${pair.access_token}?password=${account.password}`);
    await call(`DELETE /api/auth/${pair.access_token}`, { token: pair.access_token });
    await call(`DELETE /api/auth?id=${account.email}`, { token: pair.access_token });
    await call('GET /api/auth/refresh', { token: pair.refresh_token });
    await call('GET /api/user', { token: pair.access_token });
    await service.stop();

    t.ok(receiver.bodies().length > 0);
    for (const { type, path } of receiver.bodies()) {
      t.equal(type, protocol === 'http/json' ? 'application/json' : 'application/x-protobuf');
      t.equal(path, '/v1/traces');
    }
    const sent = receiver.bytes();
    t.ok(sent.includes('GET /api/user'), 'the last request’s span arrived before the process ended');
    const tokens = [pair.access_token, pair.refresh_token].flatMap((token) => [token, ...token.split('.')]);
    const secrets = [account.email, account.username, account.name, account.password, '127.0.0.1', ...tokens];
    for (const secret of secrets) t.notOk(sent.includes(secret), 'is not in it');
  });
}

const OFF: Record<string, (url: string) => Record<string, string>> = {
  'no setting asks for spans': () => ({}),
  'the SDK is disabled': (url) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_SDK_DISABLED: 'true' }),
  'no exporter is wanted': (url) => ({ OTEL_EXPORTER_OTLP_ENDPOINT: url, OTEL_TRACES_EXPORTER: 'none' }),
};

for (const [reason, environment] of Object.entries(OFF)) {
  test(`no span is made and no module loaded if ${reason}`, skip, async (t) => {
    const receiver = await startOtlpReceiver(t);
    const { service, call } = await traced(t, environment(receiver.url));
    await call('GET /api/auth/verify');
    await service.stop();
    t.strictSame(receiver.bodies(), []);
    t.notMatch(service.log(), /^LOADED /m);
    const [line] = logLines(service.log()).filter(({ msg }) => msg === 'request');
    t.equal(line?.trace_id, TRACE_ID, 'the log still has the caller’s trace id');
    t.notOk(line && 'span_id' in line);
  });
}

test('the sampler is the SDK’s own', skip, async (t) => {
  const receiver = await startOtlpReceiver(t);
  const { service, call } = await traced(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
    OTEL_TRACES_SAMPLER: 'always_off',
  });
  await call('GET /api/auth/verify');
  await service.stop();
  t.match(service.log(), /^LOADED /m);
  t.strictSame(receiver.bodies(), []);
});

test('an unreachable collector is logged once and delays no request', skip, async (t) => {
  const { service, call } = await traced(t, {
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    OTEL_EXPORTER_OTLP_TIMEOUT: '500',
    OTEL_BSP_SCHEDULE_DELAY: '100',
  });
  const complaints = () => logLines(service.log()).filter(({ msg }) => msg === 'spans cannot be sent');
  t.equal((await call('GET /api/auth/verify')).status, 401);
  await until(() => complaints().length > 0);
  t.equal((await call('GET /api/auth/verify')).status, 401);
  t.equal(await service.stop(), 0);
  t.match(complaints(), [{ level: 'warn', reason: String }]);
  t.equal(complaints().length, 1);
});
