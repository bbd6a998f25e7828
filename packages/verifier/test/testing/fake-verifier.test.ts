import { test } from 'tap';
import type { Verifier } from '../../src/create-verifier.ts';
import { fakeVerifier, testIssuer, type TestServiceToken, type TestToken } from '../../src/testing/main.ts';
import { TOKEN_TYPES, USERS_TYPES, type TokenType } from '../../src/verified-token.ts';
import { VerifierError } from '../../src/verifier-error.ts';
import { verifyRequest } from '../../src/verify-request.ts';
import { bearer } from '../../../../test/support/client.ts';

const NOW = Math.floor(Date.now() / 1000);

const TOKENS = {
  access: { userId: 7, roles: ['admin'], emailVerified: true },
  proven: { userId: 8, acr: 'mfa' },
  old: { userId: 9, acr: 'phr', authTime: NOW - 1000 },
  llt: { userId: 10, tokenType: 'llt', roles: ['admin'], emailVerified: true },
  limited: { userId: 11, scopes: ['orders:read', 'billing'], roles: ['admin'] },
  service: { tokenType: 'service', clientId: 'lkc_billing', roles: ['orders:read'] },
} as const satisfies Record<string, TestToken | TestServiceToken>;

const CHECKS: object[] = [
  {},
  { scope: 'orders:read' },
  { scope: ['billing', 'orders:read'] },
  { scope: 'orders:write' },
  { acr: 'mfa' },
  { maxAge: 300 },
  { maxAge: 300, acr: 'mfa', scope: 'billing' },
  { scope: 'Orders' },
  { acr: 'other' },
  { maxAge: 0 },
  { maxage: 300 },
];

/** What differs from token to token. */
const OWN = ['sid', 'iat', 'exp', 'gen', 'jti', 'client_version', 'aud', 'auth_time', 'expiresAt'];

/** All that a service sees. */
async function seenBy({ verify }: Pick<Verifier<TokenType>, 'verify'>, token: string, checks: object) {
  try {
    const { claims, ...seen } = await verify(token, checks as { scope: string });
    const shown = Object.entries({ ...claims, ...seen }).map(([name, value]) => [
      name,
      OWN.includes(name) ? typeof value : value,
    ]);
    return { shown: Object.fromEntries(shown) as object, isFrozen: Object.isFrozen(claims) };
  } catch (error) {
    if (error instanceof TypeError) return error.message;
    if (!(error instanceof VerifierError)) throw error;
    const { code, reason, expected, found } = error;
    return { code, reason, expected, found };
  }
}

for (const accept of [USERS_TYPES, TOKEN_TYPES, ['llt'], ['service']] as const)
  test(`decides as a real verifier that accepts ${accept.join(', ')}`, async (t) => {
    const issuer = testIssuer();
    t.teardown(() => issuer.close());
    // Of an audience for which there are service tokens, except for long-lived ones.
    const real = {
      latchkey: issuer.verifier({ accept, onError: () => undefined }),
      orders: issuer.verifier({ accept, audience: 'orders', onError: () => undefined }),
    };
    await Promise.all([real.latchkey.ready(), real.orders.ready()]);
    const fake = fakeVerifier(TOKENS, { accept });
    t.strictSame(fake.accept, real.orders.accept);
    for (const [name, token] of Object.entries(TOKENS)) {
      const audience = name === 'service' ? 'orders' : 'latchkey';
      const issued = await issuer.token({ ...token, audience });
      for (const checks of CHECKS)
        t.strictSame(
          await seenBy(fake, name, checks),
          await seenBy(real[audience], issued, checks),
          `${name} ${JSON.stringify(checks)}`,
        );
    }
  });

test('is what verifyRequest takes, and knows no other token', async (t) => {
  const verifier = fakeVerifier({ ADA: { userId: 7 } });
  const ask = (token: string) =>
    verifyRequest(verifier, new Request('http://localhost/', { headers: bearer(token) }));
  t.match(await ask('ADA'), { auth: { userId: 7, tokenType: 'access', roles: [] } });
  t.equal((await ask('BOB')).response?.status, 401);
  await t.rejects(verifier.verify('BOB'), { code: 'invalid_token' });
  t.throws(() => fakeVerifier({ ADA: { userId: '7' } as never }), TypeError);
  t.throws(() => fakeVerifier({ ADA: { userId: 7, expiresIn: 5 } as never }), TypeError);
  t.throws(() => fakeVerifier({}, { accepts: ['service'] } as never), TypeError);
});
