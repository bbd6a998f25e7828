import { createServer } from 'node:http';
import { test, type Test } from 'tap';
import { VerifierError, type TokenType, type VerifiedToken } from '@latchkey/verifier';
import { makeCheckTokens } from '../src/check-tokens.ts';
import { bearer } from '../../../test/support/client.ts';
import { listen } from '../../../test/support/listen.ts';

/** @param outcome of each check */
async function startChecks(t: Test, outcome: object) {
  const failures: unknown[] = [];
  const ids: (string | undefined)[] = [];
  const verify = () =>
    outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve(outcome as VerifiedToken<TokenType>);
  const checkTokens = makeCheckTokens({
    verifier: { verify, accept: ['access', 'service'] },
    audience: 'shop',
    checked: (_refusal, id) => ids.push(id),
    failed: (error, id) => {
      failures.push(error);
      ids.push(id);
    },
  });
  const url = await listen(t, createServer(checkTokens));
  const introspect = (body: string) =>
    fetch(`${url}/introspect`, { method: 'POST', body: new URLSearchParams(body) });
  return { url, introspect, failures, ids };
}

test('an introspection that cannot be told is 503, and never inactive', async (t) => {
  const { introspect } = await startChecks(t, new VerifierError('unavailable', 'unreachable', 'no answer'));
  const answer = await introspect('token=x');
  t.equal(answer.status, 503);
  t.equal(answer.headers.get('retry-after'), '1');
  t.notMatch(await answer.text(), 'active');
});

test('an error of our own is 500, and reported', async (t) => {
  const error = new Error('ours');
  const { url, introspect, failures } = await startChecks(t, error);
  t.equal((await introspect('token=x')).status, 500);
  t.equal((await fetch(`${url}/verify`, { headers: bearer('x') })).status, 500);
  t.strictSame(failures, [error, error]);
});

test('every problem has the request’s id, under which the log names it', async (t) => {
  const user = { tokenType: 'access', userId: 7, sid: 11, roles: [], claims: {} };
  const cases = [
    [new VerifierError('invalid_token', 'expired', 'bad'), '/verify', true],
    [new VerifierError('unavailable', 'unreachable', 'no answer'), '/introspect', true],
    [new Error('ours'), '/verify', true],
    [new Error('ours'), '/introspect', true],
    [user, '/verify?demand_acr=mfa', true],
    [user, '/nowhere', false],
  ] as const;
  for (const [outcome, path, isLogged] of cases)
    for (const given of ['r-1', 'not an id']) {
      const { url, ids } = await startChecks(t, outcome);
      const headers = { ...bearer('x'), 'x-request-id': given };
      const body = path === '/introspect' ? new URLSearchParams('token=x') : null;
      const answer = await fetch(url + path, { method: body ? 'POST' : 'GET', headers, body });
      const { request_id: id } = (await answer.json()) as { request_id: string };
      if (given === 'r-1') t.equal(id, given, path);
      else t.match(id, /^[\da-f-]{36}$/, path);
      if (isLogged) t.strictSame([...new Set(ids)], [id], path);
    }
});

test('a service is no user, and two tokens are none', async (t) => {
  const claims = { sub: 'lkc_1', client_id: 'lkc_1' };
  const service = { tokenType: 'service', clientId: 'lkc_1', userId: 7, sid: 11, roles: [], claims };
  const { url, introspect } = await startChecks(t, service);
  const { headers } = await fetch(`${url}/verify`, { headers: bearer('x') });
  const names = ['user', 'session', 'client'].map((name) => headers.get(`x-auth-${name}`));
  t.strictSame(names, ['', '', 'lkc_1']);
  t.equal((await introspect('token=x')).status, 200);
  t.equal((await introspect('token=x&token=x')).status, 400);
});

test('a demand of a proxy, which the agent does not check, is refused', async (t) => {
  const user = { tokenType: 'access', userId: 7, sid: 11, roles: [], claims: {} };
  const { url } = await startChecks(t, user);
  const ask = (path: string) => fetch(url + path, { headers: bearer('x') });
  for (const path of ['/verify', '/verify/', '/scopes/a/verify', '/scopes/a/verify/'])
    for (const query of ['demand_acr=mfa', 'x=1&DEMAND_x', 'demand%5Fmax_age=300']) {
      const answer = await ask(`${path}?${query}`);
      t.equal(answer.status, 401, `${path}?${query}`);
      t.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_user_authentication"');
      t.notOk(answer.headers.has('x-auth-user'));
    }
  t.equal((await ask('/verify?x=demand_acr')).status, 200);
  t.equal((await ask('/verify/items?demand_acr=mfa')).status, 200, 'that query is a client’s');
});

test('an introspection shows what the token says of its login', async (t) => {
  const claims = { sub: '7', auth_time: 1_795_000_000, acr: 'mfa', amr: ['pwd', 'otp', 'mfa'] };
  const { introspect } = await startChecks(t, { tokenType: 'access', userId: 7, sid: 11, roles: [], claims });
  t.match(await (await introspect('token=x')).json(), { active: true, ...claims });
});

test('an introspection shows whether the address is proved as the verifier says, whatever the claims', async (t) => {
  for (const emailVerified of [true, false]) {
    const claims = { sub: '7', email_verified: !emailVerified };
    const user = { tokenType: 'access', userId: 7, sid: 11, roles: [], emailVerified, claims };
    const { url, introspect } = await startChecks(t, user);
    const said = (await (await introspect('token=x')).json()) as object;
    t.strictSame('email_verified' in said && said.email_verified, emailVerified);
    t.equal('email_verified' in said, emailVerified, 'absent if it is not');
    const { headers } = await fetch(`${url}/verify`, { headers: bearer('x') });
    t.notMatch([...headers.keys()].join(), /verified/, 'an older proxy would pass on what a client sends');
  }
});

test('the scopes of the path reach the verifier, and nothing else of the request does', async (t) => {
  const asked: unknown[] = [];
  const limited = { tokenType: 'limited', userId: 7, sid: 12, scopes: ['a'], roles: ['editor'], claims: {} };
  const checkTokens = makeCheckTokens({
    verifier: {
      verify: (...args: unknown[]) => {
        asked.push(args[1]);
        return Promise.resolve(limited as never);
      },
      accept: ['access'],
    },
    audience: 'shop',
    checked: () => undefined,
    failed: () => undefined,
  });
  const url = await listen(t, createServer(checkTokens));
  const ask = (path: string, headers = {}) => fetch(url + path, { headers: { ...bearer('x'), ...headers } });
  for (const path of [
    '/scopes/a,b:c/verify',
    '/scopes/a%2Cb:c/verify/',
    '/scopes/a,b:c/verify/items/7?scope=x&demand_acr=mfa',
  ])
    t.match(Object.fromEntries((await ask(path, { 'x-forwarded-uri': '/?scope=x' })).headers), {
      'x-auth-user': '7',
      'x-auth-session': '12',
      'x-auth-roles': 'editor',
      'x-auth-token-type': 'limited',
      'x-auth-client': '',
    });
  t.strictSame(
    asked,
    Array.from({ length: 3 }, () => ({ scope: ['a', 'b:c'] })),
  );
  const many = Array.from({ length: 33 }, (_, i) => `s${i}`).join();
  for (const scopes of ['', 'a,', ',', 'A', 'a,a', 'a%00', '%zz', 'a%2Fb', many])
    t.equal((await ask(`/scopes/${scopes}/verify`)).status, 404, scopes);
  for (const path of ['/scopes/verify', '/scopes/a', '/scopes/a/verifyx', '/scopes/a/b/verify'])
    t.equal((await ask(path)).status, 404, path);
  t.equal(asked.length, 3);
});

test('where the path names no scopes, a limited token is 403, and inactive at introspection', async (t) => {
  const { url, introspect } = await startChecks(t, new VerifierError('insufficient_scope', 'scope', 'none'));
  const answer = await fetch(`${url}/verify`, { headers: bearer('x') });
  t.equal(answer.status, 403);
  t.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_scope"');
  t.strictSame(await (await introspect('token=x')).json(), { active: false });
});

test('too few scopes are 403 with the challenge', async (t) => {
  const error = new VerifierError('insufficient_scope', 'scope', 'too few', { expected: 'a b' });
  const { url } = await startChecks(t, error);
  const answer = await fetch(`${url}/scopes/a,b/verify`, { headers: bearer('x') });
  t.equal(answer.status, 403);
  t.equal(answer.headers.get('www-authenticate'), 'Bearer error="insufficient_scope", scope="a b"');
  t.match(await answer.json(), { code: 'insufficient_scope' });
});
