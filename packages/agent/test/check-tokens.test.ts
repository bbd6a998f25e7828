import { createServer } from 'node:http';
import { test, type Test } from 'tap';
import { VerifierError, type TokenType, type VerifiedToken } from '@latchkey/verifier';
import { makeCheckTokens } from '../src/check-tokens.ts';
import { bearer } from '../../../test/support/client.ts';
import { listen } from '../../../test/support/listen.ts';

/** @param outcome of each check */
async function startChecks(t: Test, outcome: object) {
  const failures: unknown[] = [];
  const verify = () =>
    outcome instanceof Error ? Promise.reject(outcome) : Promise.resolve(outcome as VerifiedToken<TokenType>);
  const checkTokens = makeCheckTokens({
    verifier: { verify, accept: ['access', 'service'] },
    audience: 'shop',
    checked: () => undefined,
    failed: (error) => failures.push(error),
  });
  const url = await listen(t, createServer(checkTokens));
  const introspect = (body: string) =>
    fetch(`${url}/introspect`, { method: 'POST', body: new URLSearchParams(body) });
  return { url, introspect, failures };
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
