import { test } from 'tap';
import { makeIntrospect } from '../../../src/domain/access-tokens/introspect.ts';
import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { ServiceBearer } from '../../../src/domain/principal.ts';
import { aUser, NO_FACTOR } from '../../support/token.ts';

const ACCESS = { type: 'access', userId: 7, tokenId: 11, generation: 5, ...NO_FACTOR } as const;
const SERVICE: ServiceBearer = {
  type: 'service',
  serviceId: 'lkc_shop',
  version: 1,
  audience: 'orders',
  expiresAt: 1_795_000_900,
};
const OWNER = { ...ACCESS, user: aUser(), createdAt: 1 };
const SHOP = { type: 'service', serviceId: 'lkc_shop', roles: [] } as const;

/** @param error of each check. */
function aService(error?: Error) {
  const counted: string[] = [];
  const introspect = makeIntrospect({
    verify: () => (error ? Promise.reject(error) : Promise.resolve(OWNER)),
    serviceTokens: { verify: () => (error ? Promise.reject(error) : Promise.resolve(SHOP)) },
    observe: { introspection: (outcome) => counted.push(outcome) },
  });
  return { counted, ask: (bearer: Parameters<typeof introspect>[0]) => introspect(bearer, NO_REQUEST) };
}

test('a good token names its owner, or its service', async (t) => {
  const { counted, ask } = aService();
  t.equal(await ask(ACCESS), OWNER);
  t.equal(await ask(SERVICE), SHOP);
  t.strictSame(counted, ['active', 'active']);
});

test('a token that is not good is answered with the reason', async (t) => {
  const { counted, ask } = aService(new AuthError('invalid_token', { reason: 'revoked' }));
  t.equal(await ask('signature'), 'signature');
  t.equal(await ask(ACCESS), 'revoked');
  t.equal(await ask(SERVICE), 'revoked');
  t.strictSame(counted, ['inactive', 'inactive', 'inactive']);
});

test('an outage says nothing about the token', async (t) => {
  const { counted, ask } = aService(new AuthError('unavailable'));
  await t.rejects(ask(ACCESS), { code: 'unavailable' });
  t.strictSame(counted, ['unavailable']);
});
