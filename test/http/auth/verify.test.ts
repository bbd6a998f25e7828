import { ALL_METHODS } from '../../../src/http/plugins/method-not-allowed.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, createLongLived, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { onAStore } from '../../support/stores.ts';

const PATH = '/api/auth/verify';

onAStore('verify', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const account = anAccount();
  const owner = await signUp(target, account);
  const token = owner.access_token;

  await t.test('names the owner in headers, with an empty body', async (t) => {
    const { id, longlived_token: llt } = await createLongLived(target, token);
    const session = String(claimsOf(token).sid);
    for (const [bearer, type, record] of [
      [token, 'access', session],
      [llt, 'llt', String(id)],
    ] as const) {
      const response = await verify(target, bearer);
      t.equal(response.statusCode, 200);
      t.equal(response.body, '');
      t.match(response.headers, {
        'x-auth-user': String(owner.user.id),
        'x-auth-username': account.username,
        'x-auth-roles': '',
        'x-auth-session': record,
        'x-auth-token-type': type,
        'x-auth-client': '',
        'cache-control': 'no-store',
      });
    }
  });

  await t.test('answers any method, with any headers and body', async (t) => {
    for (const method of ALL_METHODS) {
      const good = await call(target, `${method} ${PATH}`, { token });
      t.equal(good.statusCode, 200, method);
      t.equal(good.headers['x-auth-user'], String(owner.user.id));
      const bad = await call(target, `${method} ${PATH}`);
      t.equal(bad.statusCode, 401, method);
    }
    const bodies: [string, string][] = [
      ['text/plain', 'hello'],
      ['application/json', '{'],
      ['application/octet-stream', 'x'.repeat(100_000)],
      ['application/json', ''],
    ];
    for (const [type, payload] of bodies) {
      const headers = { 'content-type': type };
      t.equal((await call(target, `POST ${PATH}?any=thing`, { token, headers, payload })).statusCode, 200);
    }
  });

  // `inject` resolves dot segments, so e2e/raw-http.test.ts sends them over a socket.
  await t.test('answers on every path below its own', async (t) => {
    const all = ALL_METHODS.map((method) => `${method} ${PATH}/orders?page=2`);
    const odd = [
      '/',
      '//orders//',
      '/%252e%252e/x',
      '/llt/1',
      '/..%2f..%2fhealth',
      '/;a=b',
      '/*',
      '/?',
      '/?id=%zz',
    ];
    const odder = ['/?access_token=x&id=1', `/${'x'.repeat(12_000)}`, '/%C3%A9%00', '/a:b@c$d', '/...'];
    for (const line of [...all, ...[...odd, ...odder].map((rest) => `GET ${PATH}${rest}`)]) {
      const good = await call(target, line, { token });
      t.equal(good.statusCode, 200, line);
      t.equal(good.headers['x-auth-user'], String(owner.user.id));
      t.equal(good.body, '');
      // The answer to HEAD has no body.
      if (line.startsWith('HEAD')) t.equal((await call(target, line)).statusCode, 401);
      else refused(t, await call(target, line), 401, 'token_missing');
    }
    for (const rest of ['/%zz', '/%', '/%ff%fe'])
      refused(t, await call(target, `GET ${PATH}${rest}`, { token }), 400, 'bad_request');
    for (const rest of ['x', '%2forders', '%20'])
      refused(t, await call(target, `GET ${PATH}${rest}`, { token }), 405, 'method_not_allowed');
  });

  await t.test('tells a proxy only who the caller is, and forbids caching', async (t) => {
    const headers = { 'x-forwarded-uri': '/', 'x-forwarded-method': 'PUT', 'x-auth-user': '999', expect: '' };
    const response = await call(target, `GET ${PATH}/orders`, { token, headers });
    t.strictSame(Object.keys(response.headers).sort(), [
      'cache-control',
      'connection',
      'content-length',
      'content-type',
      'date',
      'x-auth-client',
      'x-auth-roles',
      'x-auth-session',
      'x-auth-token-type',
      'x-auth-user',
      'x-auth-username',
      'x-request-id',
    ]);
    t.equal(response.headers['x-auth-user'], String(owner.user.id));
    t.equal(response.headers['cache-control'], 'no-store');
  });

  await t.test('writes usernames beyond ASCII as percent-encoded UTF-8', async (t) => {
    const suffix = String(claimsOf(token).sid);
    for (const username of [`zoë${suffix}`, `李%41${suffix}`, `a"b\\c😀${suffix}`]) {
      const { access_token } = await signUp(target, anAccount({ username }));
      const header = (await verify(target, access_token)).headers['x-auth-username'];
      t.match(header, /^[\x21-\x7e]+$/);
      t.equal(decodeURIComponent(String(header)), username);
    }
  });
});
