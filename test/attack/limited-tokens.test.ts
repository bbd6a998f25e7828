import { createLocalJWKSet, jwtVerify, type JSONWebKeySet } from 'jose';
import { test, type Test } from 'tap';
import { ALL_METHODS } from '../../src/http/plugins/method-not-allowed.ts';
import { bearer, call, claimsOf, createLimited, headerOf, verifyInScope } from '../support/client.ts';
import { KEYS } from '../support/keys.ts';
import { aRegisteredService, introspect } from '../support/registered-service.ts';
import '../support/watch-leaks.ts';
import { signerOf } from './forgeries.ts';
import { attackedOperations, bodyOf, headersOf, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, recordOf, type Target } from './target.ts';

const SCOPES = ['orders:read', 'admin', 'users:write'];

async function aWorld(t: Test) {
  const target = await aTarget(t);
  const { token } = await createLimited(target, target.pair.access_token, SCOPES);
  await verifyInScope(target, token);
  return { target, token };
}

const UNSCOPED = 'Bearer error="insufficient_scope"';

/**
 * What a limited token gets from an operation, if not what `expectedOf` says. The paths name the user's session,
 * the scope `1`, which it lacks, and the audience `1`, which is not its own.
 */
const FOR_LIMITED: Record<string, readonly [status: number, challenge?: string]> = {
  // A limited token is taken there, to end itself alone (`token_not_allowed`).
  logOutById: [403],
  endToken: [403],
  verifyInScope: [403, `${UNSCOPED}, scope="1"`],
  verifyForAudience: [401, 'Bearer error="invalid_token"'],
  verifyInScopeForAudience: [401, 'Bearer error="invalid_token"'],
  // A subject token that is refused (RFC 8693, section 2.2.2).
  getToken: [400],
};

/** Wherever only users' tokens are taken, it is the wrong one of them; elsewhere it is none at all. */
function expectedOf({ name, schemes }: Attacked): readonly [status: number, challenge?: string] {
  const isForUsers = schemes.every((scheme) => scheme === 'bearerAuth');
  return FOR_LIMITED[name] ?? (isForUsers ? [403, UNSCOPED] : [401]);
}

/** Each method of an operation that has a scheme; a bearer that asks for an exchange is its own subject. */
function requestsOf(operation: Attacked, token: string) {
  const { name, body, schemes, path } = operation;
  // Public operations ignore the header.
  if (schemes.length === 0) return [];
  const withSubject =
    name === 'getToken' ? { ...operation, body: { ...body, subject_token: token } } : operation;
  return ALL_METHODS.map((method) => ({
    name,
    expected: expectedOf(operation),
    method,
    path,
    headers: { ...headersOf(operation), ...bearer(token) },
    payload: method === operation.method ? bodyOf(withSubject) : undefined,
  }));
}

test('every operation refuses a limited token, at every method, except that it ends itself', async (t) => {
  const { target, token } = await aWorld(t);
  const before = await recordOf(target);
  const operations = attackedOperations();
  const taken: string[] = [];
  let asked = 0;
  let refusedByScope = 0;
  for (const operation of operations) {
    // Other methods of one path are other operations.
    const ofPath = operations.filter(({ path }) => path === operation.path).map(({ method }) => method);
    const isAnyMethod = operation.name.startsWith('verify');
    for (const { name, expected, method, path, headers, payload } of requestsOf(operation, token)) {
      const isOwn = method === operation.method || isAnyMethod;
      if (!isOwn && ofPath.includes(method)) continue;
      // Without an id it ends the presented token: below.
      if (name === 'logOut' && isOwn) continue;
      const {
        statusCode,
        headers: answered,
        body,
      } = await call(target, `${method} ${path}`, {
        headers,
        payload,
      });
      const [status, challenge = answered['www-authenticate']] = isOwn ? expected : [405];
      if (statusCode !== status || answered['www-authenticate'] !== challenge)
        taken.push(`${name}: ${method} ${path} answers ${statusCode} ${body}`);
      if (status === 403) refusedByScope++;
      asked++;
    }
  }
  t.strictSame(taken, []);
  t.ok(asked > 500, `${asked} requests`);
  t.ok(refusedByScope > 50, `${refusedByScope} of them learn that it is the wrong kind of token`);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  t.equal((await verifyInScope(target, token)).statusCode, 200, 'it is still good');
  await assertStillGood(t, target);
  t.equal((await call(target, 'DELETE /api/auth', { token })).statusCode, 200);
  t.equal((await verifyInScope(target, token)).statusCode, 401);
});

/** Which checks of Latchkey's do not refuse the token as a bad one, and their answers. */
async function takers(target: Target, token: string): Promise<string[]> {
  const paths = [
    '/api/auth/verify',
    '/api/auth/verify?audience=orders',
    '/api/auth/verify?audience=latchkey%23limited',
    '/api/auth/verify?audience=orders%23limited',
    '/api/auth/audiences/orders/verify',
    '/api/auth/audiences/latchkey%23limited/verify',
    '/api/auth/scopes/orders:read/verify',
    '/api/auth/scopes/orders:write/verify',
    '/api/auth/audiences/orders/scopes/orders:read/verify',
    '/api/auth/audiences/latchkey%23limited/scopes/orders:read/verify',
    '/api/auth/refresh',
    '/api/user',
  ];
  const taken: string[] = [];
  for (const path of paths) {
    const { statusCode } = await call(target, `GET ${path}`, { token });
    if (statusCode !== 401) taken.push(`${statusCode} ${path}`);
  }
  if (!(await introspect(target, target.client, token)).body.includes('"active":false'))
    taken.push('introspection');
  return taken;
}

test('a limited token under another type, with another audience, more scopes or another key', async (t) => {
  const { target, token } = await aWorld(t);
  const { pair, llt, pem } = target;
  const sign = signerOf(pem);
  const [header, claims] = [headerOf(token), claimsOf(token)];
  const own = [
    '403 /api/auth/verify',
    '200 /api/auth/scopes/orders:read/verify',
    '403 /api/auth/scopes/orders:write/verify',
    '403 /api/user',
    'introspection',
  ];
  t.strictSame(await takers(target, sign(header, claims)), own, 'the forger signs as we do');
  const ofOrders = sign(header, { ...claims, aud: 'orders#limited' });
  const atOrders = [
    '403 /api/auth/verify?audience=orders',
    '403 /api/auth/audiences/orders/verify',
    '200 /api/auth/audiences/orders/scopes/orders:read/verify',
  ];
  t.strictSame(await takers(target, ofOrders), atOrders, 'for another audience, it is told so only there');
  const longLived = headerOf(llt.longlived_token);
  const forgeries: Record<string, string> = {
    // What Latchkey's own key never signs.
    ...Object.fromEntries(
      [
        'at+jwt',
        'llt+jwt',
        'rt+jwt',
        'JWT',
        'limited',
        'LIMITED+JWT',
        'application/limited+jwt',
        undefined,
      ].map((typ) => [`typ ${typ}`, sign({ ...header, typ }, claims)]),
    ),
    ...Object.fromEntries(
      [
        'latchkey',
        'orders',
        '',
        '#limited',
        'latchkey#limited#limited',
        'latchkey#LIMITED',
        ['latchkey#limited'],
        undefined,
      ].map((aud) => [`aud ${JSON.stringify(aud)}`, sign(header, { ...claims, aud })]),
    ),
    ...Object.fromEntries(
      ['', ' ', 'a ', 'a  b', 'a a', 'A', 'a,b', ['orders:read'], null, 7, undefined].map((scope) => [
        `scope ${JSON.stringify(scope)}`,
        sign(header, { ...claims, scope }),
      ]),
    ),
    'a generation': sign(header, { ...claims, gen: 1 }),
    expired: sign(header, { ...claims, exp: Math.floor(Date.now() / 1000) - 6 }),
    'no expiry': sign(header, { ...claims, exp: undefined }),
    'another jti': sign(header, { ...claims, jti: '1' }),
    'a client_version': sign(headerOf(pair.access_token), { ...claims, client_version: 1 }),
    'the claims of an access token': sign(header, claimsOf(pair.access_token)),
    'the claims of a long-lived token': sign(header, claimsOf(llt.longlived_token)),
    'its claims under the header of a long-lived token': sign(longLived, claims),
    'its claims with AUDIENCE under that of an access token': sign(headerOf(pair.access_token), {
      ...claims,
      aud: 'latchkey',
    }),
    // What anyone may send.
    'more scopes under its signature': withClaims(token, {
      ...claims,
      scope: `${String(claims.scope)} orders:write`,
    }),
    'another key': signerOf(KEYS.ES256())(header, claims),
  };
  for (const [what, forged] of Object.entries(forgeries))
    t.strictSame(await takers(target, forged), [], what);
});

function withClaims(token: string, claims: object): string {
  const [header = '', , signature = ''] = token.split('.');
  return [header, Buffer.from(JSON.stringify(claims)).toString('base64url'), signature].join('.');
}

test('a JWT library that is set to AUDIENCE and ignores the type refuses it', async (t) => {
  const { target, token } = await aWorld(t);
  const keys = createLocalJWKSet((await call(target, 'GET /.well-known/jwks.json')).json<JSONWebKeySet>());
  const check = (each: string) =>
    jwtVerify(each, keys, { issuer: String(claimsOf(token).iss), audience: 'latchkey' });
  await t.resolves(check(target.pair.access_token));
  await t.resolves(check(target.llt.longlived_token), 'it does not look at the type');
  await t.rejects(check(token));
});

test('a client without the right learns nothing of it, and cannot end another one’s', async (t) => {
  const { target, token } = await aWorld(t);
  const spy = await aRegisteredService(target.databaseUrl, 'spy', ['introspect']);
  const ended = await createLimited(target, target.pair.access_token, ['a']);
  await call(target, 'DELETE /api/auth', { token: ended.token });
  const answers = [];
  for (const each of [token, ended.token, 'x', withClaims(token, claimsOf(token))])
    answers.push((await introspect(target, spy, each)).body);
  t.strictSame([...new Set(answers)], ['{"active":false}']);
});
