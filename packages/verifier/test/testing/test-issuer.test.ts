import { spawnSync } from 'node:child_process';
import { test, type Test } from 'tap';
import { latchkeyOfVerifiersContract } from '../../../../test/contract/latchkey-of-verifiers.ts';
import { bareEnvironment } from '../../../../test/support/environment.ts';
import { createVerifier } from '../../src/create-verifier.ts';
import { testIssuer, type TestIssuerOptions } from '../../src/testing/main.ts';
import { makeTestIssuer } from '../../src/testing/test-issuer.ts';

latchkeyOfVerifiersContract('the test issuer', (t) => {
  const { testIssuer: issuer, optionsFor } = makeTestIssuer({});
  t.teardown(() => issuer.close());
  let users = 0;
  const { options, ...controls } = issuer;
  return Promise.resolve({
    ...controls,
    issuer: options.issuer,
    fetch: options.fetch,
    client: (audience) => optionsFor(audience).client,
    async aUser(roles = []) {
      await issuer.changeUser(++users, { roles });
      return users;
    },
  });
});

function anIssuer(t: Test, options?: TestIssuerOptions) {
  const issuer = testIssuer(options);
  t.teardown(() => issuer.close());
  return issuer;
}

const REVOKED = { code: 'invalid_token', reason: 'revoked' };

test('verifiers of another process read its feed too, by its address', async (t) => {
  const issuer = anIssuer(t, { issuer: 'https://id.example.com/latchkey', audience: 'shop' });
  const url = await issuer.listen();
  t.equal(await issuer.listen(), url);
  t.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  const verifier = createVerifier({ ...issuer.options, url, fetch, onError: () => undefined });
  t.teardown(() => verifier.close());
  await verifier.ready();
  const [first, second] = [await issuer.token({ userId: 7 }), await issuer.token({ userId: 7 })];
  t.match(await verifier.verify(first), { userId: 7, claims: { aud: 'shop' } });
  await issuer.revoke(first);
  await t.rejects(verifier.verify(first), REVOKED);

  await issuer.outage(true);
  await t.rejects(fetch(`${url}/.well-known/jwks.json`), TypeError);
  t.match(await verifier.verify(second), { userId: 7 });
  await issuer.outage(false);
  t.equal((await fetch(`${url}/.well-known/jwks.json`)).status, 200);
  t.equal((await fetch(`${url}/api/auth/revocations`)).status, 401);
});

test('a service without a secret is admitted by its assertion', async (t) => {
  const issuer = anIssuer(t);
  const verifier = issuer.verifier({ client: { assertion: () => 'jwt' } });
  await verifier.ready();
  const token = await issuer.token({ userId: 7, tokenType: 'llt' });
  t.match(await verifier.verify(token), { userId: 7, tokenType: 'llt' });
});

test('makes tokens of other services, with their roles', async (t) => {
  const issuer = anIssuer(t);
  const verifier = issuer.verifier({ audience: 'orders', accept: ['service'] });
  await verifier.ready();
  const billing = { tokenType: 'service', clientId: 'lkc_billing', audience: 'orders' } as const;
  const token = await issuer.token({ ...billing, roles: ['orders:read'] });
  t.match(await verifier.verify(token), { clientId: 'lkc_billing', roles: ['orders:read'] });
  await issuer.revoke(token);
  await t.rejects(verifier.verify(token), REVOKED);
  t.match(await verifier.verify(await issuer.token(billing)), { roles: ['orders:read'] });
});

test('what no token can hold, and what it did not issue, is a TypeError', async (t) => {
  const issuer = anIssuer(t);
  const wrong: object[] = [
    {},
    { userId: '7' },
    { userId: 0 },
    { userID: 7 },
    { userId: 7, tokenType: 'refresh' },
    { userId: 7, tokenType: 'limited' },
    { userId: 7, scopes: [] },
    { userId: 7, scopes: ['Orders'] },
    { userId: 7, tokenType: 'llt', acr: 'mfa' },
    { userId: 7, tokenType: 'llt', audience: 'orders' },
    { userId: 7, acr: 'pwd' },
    { userId: 7, authTime: 'now' },
    { userId: 7, roles: 'admin' },
    { userId: 7, emailVerified: 1 },
    { userId: 7, expiresIn: 0 },
    { tokenType: 'service', clientId: '7', audience: 'orders' },
    { tokenType: 'service', clientId: 'lkc_billing' },
  ];
  for (const token of wrong) await t.rejects(issuer.token(token as never), TypeError, JSON.stringify(token));
  await t.rejects(issuer.revoke('x'), TypeError);
  await t.rejects(issuer.revokeUser(0), TypeError);
  await t.rejects(issuer.changeUser(7, { role: 'admin' } as never), TypeError);
  for (const seconds of [-1, NaN, Infinity, '5'])
    await t.rejects(issuer.advance(seconds as number), TypeError, String(seconds));
  // A misspelt one would be at its default.
  t.throws(() => testIssuer({ audiences: 'orders' } as never), TypeError);
  for (const issuer of ['id.example.com', 'https://', 7])
    t.throws(() => testIssuer({ issuer } as never), { name: 'TypeError', message: /^issuer must be/ });
  for (const audience of ['', 7, null])
    t.throws(() => testIssuer({ audience } as never), { name: 'TypeError', message: /^audience must be/ });
});

test('a test that closes nothing ends all the same', (t) => {
  const script = `
    import { testIssuer } from ${JSON.stringify(new URL('../../src/testing/main.js', import.meta.url).href)};
    const issuer = testIssuer();
    console.log(typeof (await issuer.token({ userId: 7 })));
  `;
  const options = { env: bareEnvironment(), encoding: 'utf8', timeout: 60_000 } as const;
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ['--input-type=module', '--eval', script],
    options,
  );
  t.strictSame([stdout, stderr, status], ['string\n', '', 0]);
  t.end();
});
