import { test } from 'tap';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { call, signUp } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { routesOf, type Route } from '../../support/routes.ts';

/** The public routes. A new route is listed here, or refuses a request without a token. */
const PUBLIC = [
  ...['GET', 'HEAD'].flatMap((method) => [
    `${method} /.well-known/jwks.json`,
    `${method} /.well-known/oauth-authorization-server`,
    `${method} /.well-known/openid-configuration`,
  ]),
  'GET /docs',
  'GET /docs/json',
  'GET /docs/static/*',
  'GET /docs/static/index.html',
  'GET /docs/static/swagger-initializer.js',
  'GET /docs/static/theme/collapsed-errors.css',
  'GET /docs/yaml',
  'HEAD /docs/static/*',
  'POST /api/auth',
  'POST /api/auth/signup',
  'POST /api/auth/second-factor',
  'POST /api/auth/passkey',
  'POST /api/auth/password-reset',
  'POST /api/auth/password-reset-request',
  'POST /api/auth/email-verification',
];

/** Every other route. If you add a route, decide which list it belongs to. */
const GUARDED = [
  'DELETE /api/auth',
  'DELETE /api/auth/:id',
  'POST /api/auth/llt',
  'DELETE /api/auth/llt/:id',
  'GET /api/auth/refresh',
  'GET /api/user',
  'PATCH /api/user',
  'POST /api/user/password',
  'GET /api/user/email',
  'POST /api/user/email',
  'POST /api/user/email-verification',
  'GET /api/user/factors',
  'POST /api/user/factors/totp',
  'POST /api/user/factors/totp/confirm',
  'POST /api/user/factors/passkey',
  'POST /api/user/factors/passkey/confirm',
  'POST /api/user/factors/recovery-codes',
  'POST /api/user/factors/:id/removal',
  'GET /api/user/tokens',
  'POST /api/user/tokens',
  'DELETE /api/user/tokens',
  'DELETE /api/user/tokens/:id',
];

/** For registered services. */
const FOR_SERVICES = [
  'GET /api/auth/revocations',
  'PUT /api/auth/revocations/readers/:reader',
  'DELETE /api/auth/revocations/readers/:reader',
  'GET /api/auth/revocations/readers',
  'GET /api/auth/revocations/enforcement',
  'POST /api/auth/introspect',
  'POST /api/auth/revoke',
  'POST /api/auth/uses',
  'GET /api/users',
  'POST /api/users',
  'POST /api/users/:id/password-reset',
  'POST /api/users/:id/invitation',
  'POST /api/users/mails',
  'POST /api/users/mails/undeliverable',
  'DELETE /api/users/mails/:id',
  'GET /api/users/:id/email',
  'GET /api/users/:id',
  'PATCH /api/users/:id',
  'DELETE /api/users/:id',
  'GET /api/users/:id/tokens',
  'DELETE /api/users/:id/tokens',
  'GET /api/users/:id/factors',
  'DELETE /api/users/:id/factors',
];

/** For users and registered services. With a bearer token, only the body says whether it is good. */
const FOR_EITHER = ['POST /api/auth/token'];

/** For any method. */
const VERIFY = / \/api\/auth\/(audiences\/:audience\/)?(scopes\/:scopes\/)?verify(\/\*)?$/;

test('every route that is not listed as public refuses a request without a token', async (t) => {
  let target: TestApp | undefined;
  const routes = await routesOf(async () => {
    target = await buildTestApp(t);
  });
  if (!target) return;
  const { open, guarded } = await sortOut(target, routes);
  t.strictSame(open, [...PUBLIC].sort());
  t.strictSame(
    guarded.filter((route) => !VERIFY.test(route)),
    [...GUARDED, ...FOR_SERVICES, ...FOR_EITHER].sort(),
  );
  for (const url of ['', '/audiences/:audience', '/scopes/:scopes', '/audiences/:audience/scopes/:scopes'])
    for (const rest of ['', '/*']) t.ok(guarded.includes(`GET /api/auth${url}/verify${rest}`));
});

test('authentication comes before every other check of a request', async (t) => {
  const target = await buildTestApp(t);
  const bodies: [string, string][] = [
    ['application/json', '{'],
    ['application/json', '{"device":5}'],
    ['text/plain', 'x'],
    ['application/json', `"${'x'.repeat(20_000)}"`],
  ];
  for (const line of GUARDED.filter((route) => !route.startsWith('GET'))) {
    for (const [type, payload] of bodies) {
      const options = { headers: { 'content-type': type }, payload };
      refused(t, await call(target, line, options), 401, 'token_missing');
      refused(t, await call(target, line, { ...options, token: 'x' }), 401, 'invalid_token');
    }
  }
  for (const line of FOR_SERVICES.filter((route) => !route.startsWith('GET'))) {
    for (const [type, payload] of bodies) {
      const response = await call(target, line, { headers: { 'content-type': type }, payload, token: 'x' });
      const oauth = /\/(introspect|revoke)$/.test(line) ? 'invalid_token' : undefined;
      refused(t, response, 401, 'invalid_token', undefined, oauth);
    }
  }
});

test('the challenge names an error only if a sent token is the reason', async (t) => {
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  const challenge = async (line: string, options: object) =>
    (await call(target, line, options)).headers['www-authenticate'];
  t.equal(await challenge('GET /api/user', {}), 'Bearer');
  t.equal(await challenge('GET /api/user', { headers: { authorization: 'Basic YTpi' } }), 'Bearer');
  t.equal(await challenge('GET /api/user', { token: 'x' }), 'Bearer error="invalid_token"');
  t.equal(await challenge('DELETE /api/auth/999999', { token }), 'Bearer');
  t.equal(await challenge('POST /api/auth', { payload: { username: 'x', password: 'x' } }), 'Bearer');
  t.equal(await challenge('POST /api/auth', { payload: {} }), undefined);
  t.equal(await challenge('GET /api/user', { token }), undefined);
});

/** Calls each route without a token and sorts them into open and guarded. The routes for 405 are left out. */
async function sortOut(target: TestApp, routes: Route[]) {
  const open: string[] = [];
  const guarded: string[] = [];
  for (const { method, url } of routes) {
    const response = await call(target, `${method} ${url.replace(':id', '1')}`);
    if (response.statusCode === 405) continue;
    (response.statusCode === 401 ? guarded : open).push(`${method} ${url}`);
  }
  return { open: open.sort(), guarded: guarded.sort() };
}
