import { createHmac } from 'node:crypto';
import fc from 'fast-check';
import { exportJWK, exportSPKI, generateKeyPair, importJWK, type CryptoKey } from 'jose';
import { test, type Test } from 'tap';
import { makeKeySet } from '../src/key-set.ts';
import { makeReadJwt } from '../src/read-jwt.ts';
import type { TokenType } from '../src/verified-token.ts';
import type { VerifierError } from '../src/verifier-error.ts';
import { fakeLatchkey, longLived, ofService } from './fake-latchkey.ts';

const AUDIENCE = 'latchkey';

async function reading(t: Test, overrides: object = {}) {
  const fake = await fakeLatchkey(t);
  let time = 0;
  const keys = makeKeySet({
    load: () => Promise.resolve({ keys: fake.published }),
    // Fetches again for every unknown kid.
    clock: { now: () => Date.now(), monotonic: () => (time += 2000) },
    onLoad: () => undefined,
  });
  t.teardown(() => {
    keys.close();
  });
  const clock = { now: () => Date.now() };
  const settings = {
    issuer: fake.url,
    audience: AUDIENCE,
    clockTolerance: 5,
    accept: ['access', 'llt'] as readonly TokenType[],
    ...overrides,
  };
  const read = makeReadJwt({ keys, settings, clock });
  return { fake, readJwt: async (token: string) => (await read(token)).verified };
}

for (const algorithm of ['ES256', 'EdDSA', 'RS256']) {
  test(`reads access tokens and long-lived ones signed with ${algorithm}`, async (t) => {
    const { fake, readJwt } = await reading(t);
    await fake.addKey(algorithm);
    t.match(await readJwt(await fake.sign()), {
      userId: 7,
      sid: 11,
      tokenType: 'access',
      claims: { sub: '7' },
    });
    t.match(await readJwt(await fake.sign(...longLived(12))), { userId: 7, sid: 12, tokenType: 'llt' });
  });
}

test('refuses a wrong signature, issuer, audience, type or time', async (t) => {
  const { fake, readJwt } = await reading(t);
  const now = Math.floor(Date.now() / 1000);
  const stranger = await generateKeyPair('ES256');
  const good = await fake.sign();
  const [head = '', body = '', signature = ''] = good.split('.');
  const other = (await fake.sign({ sub: '8' })).split('.')[1] ?? '';
  const wrong: [name: string, token: string, reason: string][] = [
    ['another key', await fake.sign({}, {}, stranger.privateKey), 'signature'],
    ['an unknown key', await fake.sign({}, { kid: 'unknown' }), 'unknown_key'],
    ['no kid', await fake.sign({}, { kid: undefined }), 'unknown_key'],
    ['another issuer', await fake.sign({ iss: 'https://id.example.com' }), 'issuer'],
    ['another installation', await fake.sign({ iss: 'https://id.example.com' }, { kid: 'x' }), 'issuer'],
    ['no issuer', await fake.sign({ iss: undefined }), 'issuer'],
    ['another audience', await fake.sign({ aud: 'another' }), 'audience'],
    ['a second audience', await fake.sign({ aud: [AUDIENCE, 'another'] }), 'audience'],
    ['no audience', await fake.sign({ aud: undefined }), 'audience'],
    ['expired', await fake.sign({ exp: now - 6 }), 'expired'],
    ['not yet', await fake.sign({ nbf: now + 60 }), 'not_yet_valid'],
    ['a refresh token', await fake.sign({}, { typ: 'rt+jwt', alg: 'HS256' }, new Uint8Array(32)), 'type'],
    ['any JWT', await fake.sign({}, { typ: 'JWT' }), 'type'],
    ['no type', await fake.sign({}, { typ: undefined }), 'type'],
    ['an access token without an end', await fake.sign({ exp: undefined }), 'malformed'],
    ['an end that is no number', await fake.sign({ exp: 'tomorrow' }), 'malformed'],
    ['a beginning that is no number', await fake.sign({ nbf: 'tomorrow' }), 'malformed'],
    ['a long-lived token that has expired', await fake.sign(...longLived(12, { exp: now - 6 })), 'expired'],
    ['a long-lived token with a wrong end', await fake.sign(...longLived(12, { exp: '9' })), 'malformed'],
    ['no sid', await fake.sign({ sid: undefined }), 'malformed'],
    ['an actor that is a text', await fake.sign({ act: 'orders' }), 'malformed'],
    ['the claims of another', [head, other, signature].join('.'), 'signature'],
    ['no signature', `${head}.${body}.`, 'malformed'],
    ['padding', `${good}==`, 'malformed'],
    [
      'a space in the signature',
      `${head}.${body}.${signature.slice(0, 9)} ${signature.slice(9)}`,
      'malformed',
    ],
    ['a line break at the end', `${good}\n`, 'malformed'],
    ['the other alphabet', `${head}.${body}.+${signature.slice(1)}`, 'malformed'],
    ['empty', '', 'malformed'],
    ['no JWT', 'opaque', 'malformed'],
  ];
  await readJwt(good);
  for (const [name, token, reason] of wrong)
    await t.rejects(readJwt(token), { code: 'invalid_token', reason }, name);
  await readJwt(await fake.sign({ exp: now - 3 }));
  t.match(await readJwt(await fake.sign(...longLived(12, { exp: now - 3 }))), { claims: { exp: now - 3 } });
  await t.rejects(readJwt(undefined as unknown as string), { code: 'invalid_token' });
});

test('a refusal says what was expected and found, where that is harmless', async (t) => {
  const { fake, readJwt } = await reading(t);
  const refusal = async (claims: object, header = {}) =>
    readJwt(await fake.sign(claims, header)).then(
      () => null,
      (error: unknown) => error as VerifierError,
    );
  t.match(await refusal({ aud: 'billing' }), {
    reason: 'audience',
    expected: AUDIENCE,
    found: 'billing',
    message: /for another audience: expected latchkey, found billing$/,
  });
  t.match(await refusal({ aud: ['billing', AUDIENCE] }), { found: '["billing","latchkey"]' });
  t.match(await refusal({ aud: 7 }), { found: 'a value of type number' });
  t.match(await refusal({ iss: 'https://staging' }), { expected: fake.url, found: 'https://staging' });
  t.match(await refusal({ iss: undefined }), {
    expected: fake.url,
    found: undefined,
    message: /found none$/,
  });
  t.match(await refusal({}, { typ: 'rt+jwt' }), { expected: 'access or llt', found: 'rt+jwt' });
  const long = await refusal({ aud: 'line\nbreak é'.padEnd(500, 'x') });
  t.match(long?.found, /^line\?break \?x{88}…$/);
  t.match(await refusal({ exp: 1 }), { reason: 'expired', expected: undefined, found: undefined });
});

test('takes a token that was exchanged for the audience of this service, and no other', async (t) => {
  const { fake, readJwt } = await reading(t, { audience: 'orders' });
  const exchanged = {
    aud: 'orders',
    client_id: 'lkc_shop',
    act: { sub: 'lkc_shop' },
    roles: ['admin'],
    email_verified: true,
  };
  t.match(await readJwt(await fake.sign(exchanged)), {
    userId: 7,
    sid: 11,
    tokenType: 'access',
    roles: ['admin'],
    emailVerified: true,
    clientId: 'lkc_shop',
    act: { sub: 'lkc_shop' },
    claims: { aud: 'orders' },
  });
  t.match(await readJwt(await fake.sign({ ...exchanged, aud: ['orders'] })), { sid: 11 });
  const others = [
    await fake.sign(),
    await fake.sign({ ...exchanged, aud: 'billing' }),
    await fake.sign({ ...exchanged, aud: ['orders', 'billing'] }),
    await fake.sign(...longLived(12)),
  ];
  for (const token of others)
    await t.rejects(readJwt(token), { code: 'invalid_token', reason: 'audience', expected: 'orders' });
});

test('the key chooses the algorithm, not the token', async (t) => {
  const { fake, readJwt } = await reading(t);
  const rsa = await fake.addKey('RS256');
  const body = (await fake.sign()).split('.')[1] ?? '';
  const encode = (header: object) => Buffer.from(JSON.stringify(header)).toString('base64url');
  const pem = await exportSPKI((await importJWK(rsa.jwk, 'RS256')) as CryptoKey);
  const head = encode({ alg: 'HS256', typ: 'at+jwt', kid: rsa.kid });
  const mac = createHmac('sha256', pem).update(`${head}.${body}`).digest('base64url');
  await t.rejects(
    readJwt(`${head}.${body}.${mac}`),
    { code: 'invalid_token', reason: 'unknown_key' },
    'HS256 with the public key as its secret',
  );
  const none = encode({ alg: 'none', typ: 'at+jwt', kid: rsa.kid });
  await t.rejects(readJwt(`${none}.${body}.`), { code: 'invalid_token' }, 'none');
  // The same RSA key could sign this too.
  const pss = await importJWK({ ...(await exportJWK(rsa.privateKey)), alg: 'PS256' }, 'PS256');
  await t.rejects(readJwt(await fake.sign({}, { alg: 'PS256' }, pss)), { code: 'invalid_token' }, 'PS256');
  const ec = await fake.addKey('ES256');
  await t.rejects(
    readJwt(await fake.sign({}, { kid: rsa.kid, alg: 'ES256' }, ec.privateKey)),
    { code: 'invalid_token' },
    'a kid of another kind',
  );
});

test('takes the types of tokens that `accept` lists, and no other', async (t) => {
  for (const accept of [
    ['access'],
    ['llt'],
    ['service'],
    ['access', 'llt'],
    ['llt', 'service'],
  ] as TokenType[][]) {
    const { fake, readJwt } = await reading(t, { accept });
    const tokens = {
      access: await fake.sign(),
      llt: await fake.sign(...longLived(12)),
      service: await fake.sign(ofService('lkc_shop', 1)),
    };
    for (const [tokenType, token] of Object.entries(tokens)) {
      if (accept.includes(tokenType as TokenType)) t.match(await readJwt(token), { tokenType });
      else
        await t.rejects(
          readJwt(token),
          { code: 'invalid_token', reason: 'type', expected: accept.join(' or ') },
          `${tokenType} where ${accept.join()} is accepted`,
        );
    }
  }
});

test('checks a service’s token as any other', async (t) => {
  const { fake, readJwt } = await reading(t, { accept: ['service'] });
  const stranger = await generateKeyPair('ES256');
  const good = ofService('lkc_shop', 1);
  const wrong: [token: string, reason: string][] = [
    [await fake.sign(good, {}, stranger.privateKey), 'signature'],
    [await fake.sign({ ...good, iss: 'https://id.example.com' }), 'issuer'],
    [await fake.sign({ ...good, aud: 'another' }), 'audience'],
    [await fake.sign({ ...good, exp: 1 }), 'expired'],
    [await fake.sign({ ...good, sid: 11 }), 'malformed'],
    [await fake.sign(good, { typ: 'llt+jwt' }), 'type'],
  ];
  await readJwt(await fake.sign(good));
  for (const [token, reason] of wrong)
    await t.rejects(readJwt(token), { code: 'invalid_token', reason }, reason);
});

test('any text sent as a token is refused without a fault, and the message quotes nothing of it', async (t) => {
  const { fake, readJwt } = await reading(t);
  const good = await fake.sign({ jti: 'to-be-found' });
  const flipped = fc
    .tuple(fc.nat(good.length - 1), fc.constantFrom('A', 'a', '0', '-', '_', '.', '=', 'é', '\0'))
    .map(([i, char]) => good.slice(0, i) + char + good.slice(i + 1));
  const anything = fc.oneof(
    flipped,
    fc.string(),
    fc.array(fc.base64String(), { maxLength: 5 }).map((all) => all.join('.')),
  );
  const same = Buffer.from(good.split('.')[2] ?? '', 'base64url').toString('hex');
  await fc.assert(
    fc.asyncProperty(anything, async (token) => {
      const outcome = await readJwt(token).catch((error: unknown) => error);
      // Decoders ignore the spare bits of a signature's last character.
      const isSame =
        token.slice(0, -1) === good.slice(0, -1) &&
        Buffer.from(token.split('.')[2] ?? '', 'base64url').toString('hex') === same;
      if (isSame) return;
      t.match(outcome, { code: 'invalid_token' }, token);
      t.notMatch((outcome as Error).message, /to-be-found|eyJ/);
    }),
    { numRuns: 500 },
  );
});
