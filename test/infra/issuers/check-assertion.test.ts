import { exportJWK, generateKeyPair } from 'jose';
import { test, type Test } from 'tap';
import type { ServiceTrust, PublicJwks } from '../../../src/domain/services/assertion.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeCheckAssertion } from '../../../src/infra/issuers/check-assertion.ts';
import { makeIssuerKeys } from '../../../src/infra/issuers/issuer-keys.ts';
import { aClock } from '../../support/clock.ts';
import { fakeIssuer, SUBJECT } from '../../support/fake-issuer.ts';

const AUDIENCE = 'https://auth.example.com';

async function aCheck(t: Test) {
  const clock = aClock();
  const issuer = await fakeIssuer(t, { audience: AUDIENCE, now: clock.now });
  const outcomes: string[] = [];
  const lines: object[] = [];
  const log = { warn: (fields: object) => lines.push(fields) };
  const registered = new Map<string, PublicJwks | null>([[issuer.url, null]]);
  /** The services in memory, and what is on record beside them. */
  const services = {
    trusts: [{ issuer: issuer.url, subject: SUBJECT }],
    onRecord: (): ServiceTrust[] => [],
    authenticateWorkload: async (wanted: ServiceTrust) => {
      const isOpen = () =>
        services.trusts.some((trust) => trust.issuer === wanted.issuer && trust.subject === wanted.subject);
      if (!isOpen()) await services.refresh();
      if (!isOpen()) throw new AuthError('invalid_client', { reason: 'assertion' });
      return {
        serviceId: 'shop',
        name: 'shop',
        audience: null,
        proof: { by: 'assertion', trust: wanted } as const,
      };
    },
    refresh: () => {
      services.trusts.push(...services.onRecord());
      for (const trust of services.trusts)
        if (!registered.has(trust.issuer)) registered.set(trust.issuer, null);
      return Promise.resolve();
    },
  };
  const keys = makeIssuerKeys({ registered: () => registered, clock, fetch, log: { warn: () => undefined } });
  const check = makeCheckAssertion({
    keys,
    services,
    refresh: () => services.refresh(),
    issuer: AUDIENCE,
    clock,
    observe: { assertion: (outcome) => outcomes.push(outcome) },
    log,
  });
  /** A refusal leaves a line only if a second has passed. */
  const refusalOf = (assertion: string) => {
    clock.pass(1000);
    return check(assertion, undefined);
  };
  return { clock, issuer, outcomes, lines, services, registered, check, refusalOf };
}

function unsigned(header: object, claims: object): string {
  return [header, claims, '']
    .map((part) => part && Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
}

test('a token as Kubernetes makes it, again and again', async (t) => {
  const { issuer, outcomes, lines, check } = await aCheck(t);
  await issuer.addKey('RS256');
  const token = await issuer.sign();
  for (let i = 0; i < 2; i++) t.match(await check(token, undefined), { serviceId: 'shop' });
  t.strictSame(outcomes, ['accepted', 'accepted']);
  t.strictSame(lines, []);
  t.equal(issuer.requests.length, 2);
});

test('every algorithm', async (t) => {
  const { clock, issuer, check } = await aCheck(t);
  for (const alg of 'ES256 ES384 ES512 RS256 RS384 RS512 PS256 PS384 PS512 EdDSA'.split(' ')) {
    await issuer.addKey(alg);
    clock.pass(10_000);
    t.type(await check(await issuer.sign(), undefined), 'object', alg);
  }
});

test('no JWT', async (t) => {
  const { issuer, refusalOf } = await aCheck(t);
  const token = await issuer.sign();
  const [header = '', payload = '', signature = ''] = token.split('.');
  for (const text of [
    '',
    'a.b',
    'a.b.c',
    `${header}.${payload}`,
    `${token}.x`,
    `${token} `,
    `${header}.W10.${signature}`,
    await issuer.sign({ more: 'x'.repeat(16_384) }),
    await issuer.sign({ iss: undefined }),
    await issuer.sign({ sub: undefined }),
    await issuer.sign({}, { kid: 7 }),
    await issuer.sign({}, { crit: ['exp'], exp: 7 }),
  ])
    t.equal(await refusalOf(text), 'malformed', text.slice(0, 40));
});

test('an algorithm that is none, symmetric, unknown, or unlike the key', async (t) => {
  const { issuer, refusalOf } = await aCheck(t);
  await issuer.addKey('RS256');
  const kid = issuer.published[1]?.kid;
  const claims = JSON.parse(
    Buffer.from((await issuer.sign()).split('.')[1] ?? '', 'base64url').toString(),
  ) as object;
  const { privateKey } = await generateKeyPair('ES256');
  for (const token of [
    unsigned({ alg: 'none', kid }, claims),
    unsigned({ alg: 'None', kid }, claims),
    unsigned({ kid }, claims),
    await issuer.sign({}, { alg: 'HS256' }, Buffer.from(JSON.stringify(issuer.published[1]))),
    await issuer.sign({}, { alg: 'ES256' }, privateKey),
  ])
    t.equal(await refusalOf(token), 'algorithm');
});

test('only a key of the issuer itself can sign for it', async (t) => {
  const { issuer, services, registered, refusalOf } = await aCheck(t);
  const { publicKey, privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = await exportJWK(publicKey);
  t.equal(await refusalOf(await issuer.sign({}, {}, privateKey)), 'signature');
  const own = unsigned({ alg: 'ES256', kid: issuer.published[0]?.kid }, { iss: issuer.url });
  t.equal(await refusalOf(own), 'signature', 'without one');

  const thief = await fakeIssuer(t, { audience: AUDIENCE });
  const header = {
    jwk,
    jku: `${thief.url}/openid/v1/jwks`,
    x5u: `${thief.url}/openid/v1/jwks`,
    x5c: ['AAAA'],
  };
  t.equal(await refusalOf(await issuer.sign({}, header, privateKey)), 'signature');
  t.strictSame(thief.requests, []);
  t.type(await refusalOf(await issuer.sign({}, header)), 'object', 'they are ignored');

  registered.set(thief.url, null);
  services.trusts.push({ issuer: thief.url, subject: 'another' });
  t.equal(await refusalOf(await thief.sign({ iss: issuer.url })), 'unknown_key');
});

test('an unknown key is refused while the issuer answers; else it may be good later', async (t) => {
  const { clock, issuer, outcomes, check } = await aCheck(t);
  const [known, unknown] = [await issuer.sign(), await issuer.sign({}, { kid: 'unknown' })];
  t.equal(await check(unknown, undefined), 'unknown_key');
  await issuer.stop();
  clock.pass(3_000_000);
  await t.rejects(check(unknown, undefined), { code: 'unavailable' });
  t.type(await check(known, undefined), 'object');
  t.strictSame(outcomes, ['unknown_key', 'unavailable', 'accepted']);
});

test('the claims of a signed token', async (t) => {
  const { issuer, clock, outcomes, refusalOf } = await aCheck(t);
  const now = clock.now() / 1000;
  t.equal(await refusalOf(await issuer.sign({ aud: [AUDIENCE, 'other'] })), 'audience');
  t.equal(await refusalOf(await issuer.sign({ exp: now - 60 })), 'expired');
  t.equal(await refusalOf(await issuer.sign({ nbf: now + 60 })), 'not_yet_valid');
  t.equal(await refusalOf(await issuer.sign({ exp: now + 90_000 })), 'too_long');
  t.strictSame(outcomes, ['audience', 'expired', 'not_yet_valid', 'too_long']);
  clock.distrust();
  await t.rejects(refusalOf(await issuer.sign({ exp: now - 60 })), { code: 'unavailable' });
  t.equal(outcomes[4], 'unavailable');
});

test('an issuer or a subject that is new is looked for on record', async (t) => {
  const { services, refusalOf, lines } = await aCheck(t);
  const other = await fakeIssuer(t, { audience: AUDIENCE });
  const token = await other.sign({ exp: 1_795_000_600, iat: undefined, nbf: undefined });
  t.equal(await refusalOf(token), 'issuer');
  t.strictSame(other.requests, []);
  services.onRecord = () => [{ issuer: other.url, subject: 'another' }];
  t.equal(await refusalOf(token), 'subject');
  services.onRecord = () => [{ issuer: other.url, subject: SUBJECT }];
  t.match(await refusalOf(token), { serviceId: 'shop' });
  t.match(lines, [{ reason: 'issuer' }, { reason: 'subject', issuer: other.url, subject: SUBJECT }]);

  services.refresh = () => Promise.reject(new AuthError('unavailable'));
  await t.rejects(refusalOf(await other.sign({ iss: 'https://another.example.com' })), {
    code: 'unavailable',
  });
});

test('keys that are new on record are looked for before a refusal', async (t) => {
  const { issuer, services, registered, refusalOf } = await aCheck(t);
  const token = await issuer.sign();
  const { publicKey } = await generateKeyPair('ES256', { extractable: true });
  const former = { ...(await exportJWK(publicKey)), kid: 'former' };
  const [{ kid } = {}] = issuer.published;
  services.refresh = () => {
    registered.set(issuer.url, { keys: issuer.published });
    return Promise.resolve();
  };
  await issuer.stop();
  for (const [what, jwks] of Object.entries({
    'an issuer that is away gets a file': null,
    'a key is new': { keys: [former] },
    'a key keeps its kid': { keys: [{ ...former, kid }] },
  })) {
    registered.set(issuer.url, jwks);
    t.type(await refusalOf(token), 'object', what);
  }
});

test('the log has no text of a stranger, and at most one line a second', async (t) => {
  const { issuer, lines, check, refusalOf } = await aCheck(t);
  await refusalOf(await issuer.sign({ iss: 'https://stranger.example.com' }));
  await check('no JWT', undefined);
  t.match(lines, [{ reason: 'issuer', todo: /client trust/ }]);
  const { privateKey } = await generateKeyPair('ES256');
  await refusalOf(await issuer.sign({ sub: 'stranger' }, {}, privateKey));
  await refusalOf(await issuer.sign({ aud: 'other' }));
  t.match(lines.slice(1), [
    { reason: 'signature', issuer: issuer.url },
    { reason: 'audience', issuer: issuer.url, subject: SUBJECT },
  ]);
  t.equal(lines.length, 3);
  t.notMatch(JSON.stringify(lines), /stranger/);
});
