import { test } from 'tap';
import { AuthError } from '../../src/domain/errors.ts';
import { KEYWORDS } from '../../src/http/error-handler.ts';
import { StoreError } from '../../src/telemetry/store-cause.ts';
import { buildTestApp } from '../support/app.ts';
import { call, signUp } from '../support/client.ts';
import { logLines } from '../support/log-lines.ts';
import { refused } from '../support/problem.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { routesOf } from '../support/routes.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const METHODS = 'GET HEAD POST PUT PATCH DELETE OPTIONS TRACE PROPFIND MKCOL QUERY'.split(' ');

/** Every path and its only method. */
const PATHS: [path: string, allow: string][] = [
  ['/api/auth', 'DELETE, POST'],
  ['/api/auth/7', 'DELETE'],
  ['/api/auth/llt', 'POST'],
  ['/api/auth/llt/7', 'DELETE'],
  ['/api/auth/refresh', 'GET'],
  ['/api/auth/signup', 'POST'],
  ['/api/auth/token', 'POST'],
  ['/api/auth/introspect', 'POST'],
  ['/api/auth/revoke', 'POST'],
  ['/api/user', 'GET, PATCH'],
  ['/api/user/password', 'POST'],
  ['/api/auth/password-reset', 'POST'],
  ['/api/users/mails', 'POST'],
  ['/api/users/mails/undeliverable', 'POST'],
];

test('a wrong method is 405 with Allow on every path, HEAD among them', async (t) => {
  const target = await buildTestApp(t);
  for (const [path, allow] of PATHS) {
    for (const method of METHODS.filter((each) => !allow.split(', ').includes(each))) {
      const response = await call(target, `${method} ${path}`, {
        headers: { 'x-request-id': 'wrong-method' },
      });
      t.equal(response.headers.allow, allow, `${method} ${path}`);
      if (method === 'HEAD') t.equal(response.statusCode, 405);
      else refused(t, response, 405, 'method_not_allowed');
    }
    const odd = { headers: { 'content-type': 'text/plain' }, payload: 'x'.repeat(20_000) };
    refused(t, await call(target, `PUT ${path}`, odd), 405, 'method_not_allowed');
  }
});

test('an unknown path is 404 with any method, token and body', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const paths = [
    '/',
    '/api',
    '/api/',
    '/api/authx',
    '/API/auth',
    '/api/auth/1/2',
    '/api/user/',
    '/api/user/1',
  ];
  for (const path of [
    ...paths,
    '/api/auth/llt/1/2',
    '/health/live',
    '/health/ready',
    '/metrics',
    '/..%2f..%2fetc',
  ]) {
    for (const method of ['GET', 'POST', 'DELETE']) {
      refused(t, await call(target, `${method} ${path}`, { token }), 404, 'not_found');
    }
    t.equal((await call(target, `HEAD ${path}`)).statusCode, 404);
  }
  const bodies: [Record<string, string>, string][] = [
    [{ 'content-type': 'text/plain' }, 'x'],
    [JSON_TYPE, '{'],
    [JSON_TYPE, `"${'x'.repeat(20_000)}"`],
    [{}, 'x'],
  ];
  for (const [headers, payload] of bodies) {
    refused(t, await call(target, 'POST /nowhere', { headers, payload }), 404, 'not_found');
  }
  const long = `/nowhere/${'x'.repeat(5000)}`;
  refused(t, await call(target, `GET ${long}`), 404, 'not_found');
});

test('a body of another type is 415', async (t) => {
  const target = await buildTestApp(t);
  const post = (type: string) =>
    call(target, 'POST /api/auth', {
      headers: { 'content-type': type },
      payload: '{"username":"a","password":"b"}',
    });
  const types =
    'text/plain application/x-www-form-urlencoded multipart/form-data application/xml json application/jsonx';
  for (const type of [...types.split(' '), 'application/merge-patch+json', ''])
    refused(t, await post(type), 415, 'unsupported_media_type');
  const good = ['application/json; charset=utf-8', 'Application/JSON', 'application/json ;charset="UTF-8"'];
  for (const type of good) refused(t, await post(type), 401, 'invalid_credentials');
});

test('a body of more than 16 KiB is 413', async (t) => {
  const target = await buildTestApp(t);
  const bodyOf = (size: number) => {
    const body = JSON.stringify({ username: 'a', password: 'b' });
    return body + ' '.repeat(size - body.length);
  };
  const post = (payload: string) => call(target, 'POST /api/auth', { headers: JSON_TYPE, payload });
  refused(t, await post(bodyOf(16 * 1024)), 401, 'invalid_credentials');
  refused(t, await post(bodyOf(16 * 1024 + 1)), 413, 'body_too_large');
});

test('malformed JSON is 400, and the answer quotes none of it', async (t) => {
  const target = await buildTestApp(t);
  const bodies = [
    '',
    ' ',
    '{',
    '{"username":"hunter2"',
    'hunter2',
    "{'username':'hunter2'}",
    '{"a":1}{"b":2}',
  ];
  const hostile = ['{"__proto__":{"x":1}}', '{"constructor":{"prototype":{"x":1}}}', '\ufeff{"username":1}}'];
  for (const payload of [...bodies, ...hostile]) {
    const response = await call(target, 'POST /api/auth', { headers: JSON_TYPE, payload });
    refused(t, response, 400, 'malformed_json');
    t.notMatch(response.body, 'hunter2');
  }
  refused(t, await call(target, 'POST /api/auth'), 400, 'malformed_json');
  const notUtf8 = Buffer.from('7b22757365726e616d65223a22ff227d', 'hex');
  refused(
    t,
    await call(target, 'POST /api/auth', { headers: JSON_TYPE, payload: notUtf8 }),
    400,
    'malformed_json',
  );
});

test('an empty JSON body is none where an operation takes none', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token, user } = await signUp(target);
  const service = await aRegisteredService(target.databaseUrl, 'help desk', ['users.reset']);
  for (const [line, given] of [
    ['POST /api/user/email-verification', { token }],
    [`POST /api/users/${user.id}/password-reset`, { headers: basic(service) }],
    ['GET /api/user', { token }],
    ['DELETE /api/auth', { token }],
  ] as const) {
    const headers = { ...JSON_TYPE, ...('headers' in given && given.headers) };
    t.equal((await call(target, line, { ...given, headers, payload: '' })).statusCode, 200, line);
  }
});

test('a missing body, one of another type, and an id that is no number say what is taken', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const service = basic(await aRegisteredService(target.databaseUrl, 'shop', ['introspect', 'users.read']));
  const detailOf = async (line: string, options: Parameters<typeof call>[2]) =>
    (await call(target, line, options)).json<{ detail: string }>().detail;
  const text = { headers: { 'content-type': 'text/plain' }, payload: 'x' };
  const ofLogin = /This operation takes application\/json with username, password\.$/;
  t.match(await detailOf('POST /api/auth', {}), ofLogin);
  t.match(await detailOf('POST /api/auth', { headers: JSON_TYPE, payload: '{' }), ofLogin);
  t.match(await detailOf('POST /api/auth', text), ofLogin);
  t.match(await detailOf('PATCH /api/user', { token }), /json with name, username, /, 'none is required');
  t.match(await detailOf('DELETE /api/auth', { ...text, token }), /This operation takes no body\.$/);
  const form = { headers: { ...service, ...JSON_TYPE }, payload: '{}' };
  const refusedForm = (await call(target, 'POST /api/auth/introspect', form)).json<Record<string, string>>();
  t.match(refusedForm.detail, /takes application\/x-www-form-urlencoded with token\.$/);
  t.equal(refusedForm.error_description, refusedForm.detail);

  const messagesOf = async (line: string, options: Parameters<typeof call>[2]) =>
    (await call(target, line, options))
      .json<{ errors: { message: string }[] }>()
      .errors.map(({ message }) => message);
  t.strictSame(await messagesOf('POST /api/auth/introspect', { headers: service }), [
    'must be application/x-www-form-urlencoded with token',
  ]);
  t.strictSame(await messagesOf('POST /api/auth', { payload: [] }), [
    'must be application/json with username, password',
  ]);
  const whole = ['must be a whole number from 1 to 2^53 - 1, in decimal'];
  for (const line of ['/api/auth/x', '/api/auth?id=x', '/api/auth/llt/1.5', '/api/user/tokens/07'])
    t.strictSame(await messagesOf(`DELETE ${line}`, { token }), whole, line);
  t.strictSame(await messagesOf('GET /api/users/ada', { headers: service }), whole);
  t.strictSame(await messagesOf('GET /api/users?limit=101', { headers: service }), [
    'must be a whole number from 1 to 100, in decimal',
  ]);
});

test('only the first of many faults are listed', async (t) => {
  const target = await buildTestApp(t);
  const payload = Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`extra${i}`, 'hunter2']));
  const response = await call(target, 'POST /api/auth', { payload });
  refused(t, response, 400, 'validation_failed');
  t.ok(response.json<{ errors: unknown[] }>().errors.length <= 10);
  t.notMatch(response.body, 'hunter2');
});

test('each keyword that can refuse a field has a code', async (t) => {
  const routes = await routesOf(() => buildTestApp(t));
  const used = new Set<string>();
  const note = (schema: unknown) => {
    if (typeof schema !== 'object' || schema === null) return;
    for (const [keyword, value] of Object.entries(schema)) {
      if (SILENT.includes(keyword)) continue;
      if (keyword === 'properties') Object.values(value as object).forEach(note);
      else if (keyword === 'items') note(value);
      else used.add(keyword);
    }
  };
  for (const { schema } of routes) {
    const { body, querystring, params } = (schema ?? {}) as Record<string, unknown>;
    [body, querystring, params].forEach(note);
  }
  t.ok(used.has('required') && used.has('pattern') && used.has('enum'), [...used].join());
  t.strictSame(
    [...used].filter((keyword) => !(keyword in KEYWORDS)),
    [],
  );
});

/** Keywords that refuse nothing. */
const SILENT = ['default', 'title', 'description', 'examples', 'writeOnly', 'readOnly', 'nullable', 'shown'];

test('a refused field has a code, and its limit', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const errorsOf = async (line: string, options: Parameters<typeof call>[2]) =>
    (await call(target, line, options)).json<{ errors: unknown }>().errors;
  t.match(await errorsOf('POST /api/auth', { payload: { username: 5, extra: 'hunter2' } }), [
    { path: '/password', code: 'required' },
    { path: '/extra', code: 'unknown' },
    { path: '/username', code: 'type' },
  ]);
  t.match(await errorsOf('POST /api/auth', { payload: [] }), [{ path: '', code: 'type' }]);
  t.match(await errorsOf('DELETE /api/auth?id=x', { token }), [{ path: 'query/id', code: 'format' }]);
  t.match(await errorsOf('DELETE /api/auth?id=7&id=8', { token }), [{ path: 'query/id', code: 'repeated' }]);
  t.match(await errorsOf('DELETE /api/auth?id=9007199254740993', { token }), [
    { path: 'query/id', code: 'out_of_range' },
  ]);
  t.match(await errorsOf('DELETE /api/auth/7?id=8', { token }), [{ path: 'query/id', code: 'not_allowed' }]);
  const names = { username: 'аda', name: ' ', email: 'none', password: 'short' };
  t.match(await errorsOf('POST /api/auth/signup', { payload: names }), [
    { path: '/username', code: 'mixed_scripts' },
    { path: '/name', code: 'blank' },
    { path: '/email', code: 'format' },
    { path: '/password', code: 'too_short', params: { min: 8 } },
  ]);
});

test('an outage is logged once for each reason, not once for each request', async (t) => {
  let reason = 'ECONNREFUSED';
  const fails = () =>
    Promise.reject(new AuthError('unavailable', { cause: new StoreError('Redis', reason, '', null) }));
  const target = await buildTestApp(t, {
    override: (options) => ({ ...options, useCases: { ...options.useCases, accountWithTokens: fails } }),
  });
  const { access_token: token } = await signUp(target);
  for (let i = 0; i < 5; i++) refused(t, await call(target, 'GET /api/user', { token }), 503, 'unavailable');
  reason = 'OOM';
  for (let i = 0; i < 5; i++) refused(t, await call(target, 'GET /api/user', { token }), 503, 'unavailable');
  const lines = logLines(target.log()).filter(({ msg }) => msg === 'a dependency failed');
  t.match(lines, [{ reason: 'Redis ECONNREFUSED' }, { reason: 'Redis OOM' }]);
  t.equal(lines.length, 2);
});

test('an internal fault is 500, and only the log tells its cause', async (t) => {
  const target = await buildTestApp(t, {
    override: (options) => ({
      ...options,
      useCases: {
        ...options.useCases,
        accountWithTokens: () => Promise.reject(new Error('SELECT secret FROM users')),
      },
    }),
  });
  const { access_token: token } = await signUp(target);
  const response = await call(target, 'GET /api/user', { token });
  refused(t, response, 500, 'internal_error');
  t.notMatch(response.body, /SELECT|secret|\.js|at /);
  const [line] = logLines(target.log()).filter(({ msg }) => msg === 'internal error');
  t.equal(line?.reqId, response.headers['x-request-id']);
  t.match(line, { err: { message: 'SELECT secret FROM users' } });
});
