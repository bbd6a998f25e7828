import { test } from 'tap';
import { makeServiceTokens } from '../../../src/domain/access-tokens/service-tokens.ts';
import { makeRegisteredServices } from '../../../src/domain/services/authenticate.ts';
import type { RegisteredService } from '../../../src/domain/services/registered-service.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { Right } from '../../../src/domain/rights.ts';
import { aClock } from '../../support/clock.ts';
import { aServiceRecord } from '../../support/memory-service-store.ts';

const ISSUER = 'https://auth.example';
const SHOP = 'lkc_shop';

/** The shop, with these rights. Every audience but `nobody` is registered. */
function aService(rights: readonly Right[] = ['call:orders']) {
  const clock = aClock();
  const counted: string[] = [];
  const secretHash = new Uint8Array(32);
  const known = { serviceId: SHOP, secretHash, rights, roles: ['buyer'], version: 3 };
  let shop: RegisteredService | undefined = aServiceRecord(known);
  let reload = () => Promise.resolve();
  const directory = {
    find: () => shop,
    findTrusting: () => undefined,
    hasAudience: (audience: string) => audience !== 'nobody',
    refresh: () => reload(),
  };
  const tokens = makeServiceTokens({
    services: makeRegisteredServices(directory, clock),
    issuer: ISSUER,
    ownAudience: 'latchkey',
    ttl: 300,
    clock,
    randomBytes: (size) => Buffer.alloc(size, 1),
    observe: {
      serviceToken: (outcome) => counted.push(outcome),
      serviceVerification: (outcome) => counted.push(outcome),
    },
  });
  const identity = { serviceId: SHOP, name: 'shop', audience: null };
  const token = { type: 'service', serviceId: SHOP, version: 3, audience: 'orders' } as const;
  return {
    clock,
    counted,
    remove: () => {
      shop = undefined;
    },
    fail: (error: Error) => {
      reload = () => Promise.reject(error);
    },
    issue: (audience: string) => tokens.issue({ ...identity, proof: { by: 'secret', secretHash } }, audience),
    verify: (version = 3) => tokens.verify({ ...token, version, expiresAt: clock.now() / 1000 + 300 }),
  };
}

test('the claims name the service, its version and its roles', async (t) => {
  const { clock, counted, issue } = aService();
  clock.pass(999);
  t.strictSame(await issue('orders'), {
    sub: SHOP,
    client_id: SHOP,
    client_version: 3,
    roles: ['buyer'],
    jti: Buffer.alloc(16, 1).toString('base64url'),
    iat: 1_795_000_000,
    exp: 1_795_000_300,
    aud: 'orders',
  });
  t.strictSame(counted, ['issued']);
});

test('a token for another service takes the right to call it, and one for this service takes none', async (t) => {
  const { counted, issue } = aService([]);
  await t.rejects(issue('orders'), { code: 'right_missing', right: 'call:orders' });
  t.match(await issue(ISSUER), { aud: ISSUER });
  t.strictSame(counted, ['right', 'issued']);
});

test('no token is for an audience that is not registered, or for that of users’ tokens', async (t) => {
  const audiences = ['nobody', 'latchkey', 'a/b'];
  const { counted, issue } = aService(audiences.map((audience) => `call:${audience}` as const));
  for (const audience of audiences) await t.rejects(issue(audience), { code: 'invalid_target' }, audience);
  t.strictSame(counted, ['target', 'target', 'target']);
});

test('a service that is gone, and a clock that the stores contradict, make no token', async (t) => {
  const [gone, late] = [aService(), aService()];
  gone.remove();
  late.clock.distrust();
  for (const { counted, issue } of [gone, late]) {
    await t.rejects(issue(ISSUER), { code: 'unavailable' });
    t.strictSame(counted, ['unavailable']);
  }
});

test('a good token names its service with its present roles', async (t) => {
  const { counted, verify } = aService();
  t.strictSame(await verify(), { type: 'service', serviceId: SHOP, roles: ['buyer'] });
  t.strictSame(counted, ['good']);
});

test('a service that is removed while its token is checked has no roles', async (t) => {
  const { remove, verify } = aService();
  const checking = verify();
  remove();
  t.strictSame((await checking).roles, []);
});

test('a token is refused once it was ended, or the right to call its audience is gone', async (t) => {
  const { counted, verify } = aService([]);
  await t.rejects(verify(2), { code: 'invalid_token', reason: 'revoked' });
  await t.rejects(verify(), { code: 'invalid_token', reason: 'right', serviceId: SHOP });
  t.strictSame(counted, ['revoked', 'right']);
});

test('an error that is no refusal is passed on, and counted as an outage', async (t) => {
  const { counted, fail, issue, verify } = aService([]);
  const likeOurs = Object.assign(new Error('not ours'), { code: 'right_missing' });
  for (const error of [new AuthError('unavailable'), likeOurs]) {
    fail(error);
    await t.rejects(issue('orders'), error);
    await t.rejects(verify(), error);
  }
  t.strictSame(counted, Array(4).fill('unavailable'));
});
