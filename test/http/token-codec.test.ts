import { createPrivateKey, createPublicKey } from 'node:crypto';
import { test } from 'tap';
import { makeTokenCodec } from '../../src/http/token-codec.ts';
import { buildTestApp } from '../support/app.ts';
import { claimsOf, createLongLived, headerOf, pairOf, refresh, signUp, verify } from '../support/client.ts';
import { KEYS, withKeys } from '../support/keys.ts';
import { refused } from '../support/problem.ts';
import { forge } from '../support/tokens.ts';

for (const algorithm of ['ES256', 'EdDSA', 'RS256'] as const) {
  test(`signs with ${algorithm} if that is the key's`, async (t) => {
    const { target } = await withKeys(t, algorithm);
    const pair = await signUp(target);
    const { longlived_token: llt } = await createLongLived(target, pair.access_token);
    for (const token of [pair.access_token, llt]) {
      t.equal(headerOf(token).alg, algorithm);
      t.equal((await verify(target, token)).statusCode, 200);
    }
    t.equal((await refresh(target, pair.refresh_token)).statusCode, 200);
  });
}

test('accepts only tokens that are correct in every respect', async (t) => {
  const { target, pem, secret } = await withKeys(t);
  const pair = await signUp(target);
  const header = headerOf(pair.access_token);
  const claims = claimsOf(pair.access_token);
  const now = Math.floor(Date.now() / 1000);
  const status = async (token: string) => (await verify(target, token)).statusCode;
  const publicPem = createPublicKey(createPrivateKey(pem)).export({ type: 'spki', format: 'pem' }).toString();
  t.equal(await status(forge(header, claims, pem)), 200, 'a forgery with the right key passes');

  const bad: Record<string, string> = {
    'alg none': forge({ ...header, alg: 'none' }, claims),
    'alg None': forge({ ...header, alg: 'None' }, claims, pem),
    'alg none, signed': `${forge({ ...header, alg: 'none' }, claims)}${pair.access_token.split('.')[2]}`,
    'HS256 with the public key': forge({ ...header, alg: 'HS256' }, claims, publicPem),
    'HS256 with the trimmed public key': forge({ ...header, alg: 'HS256' }, claims, publicPem.trim()),
    'HS256 with the refresh secret': forge(
      { ...header, alg: 'HS256' },
      claims,
      Buffer.from(secret, 'base64url'),
    ),
    'another algorithm in the header': forge({ ...header, alg: 'RS256' }, claims, KEYS.RS256()),
    'another key under the same kid': forge(header, claims, KEYS.ES256()),
    'a key of another kind under the same kid': forge({ ...header, alg: 'EdDSA' }, claims, KEYS.EdDSA()),
    'an unknown kid': forge({ ...header, kid: 'x' }, claims, pem),
    'no kid': forge({ alg: header.alg, typ: header.typ }, claims, pem),
    'a key embedded in the header': forge(
      { ...header, kid: 'x', jwk: {}, jku: 'http://localhost' },
      claims,
      pem,
    ),
    'typ JWT': forge({ ...header, typ: 'JWT' }, claims, pem),
    'no typ': forge({ alg: header.alg, kid: header.kid }, claims, pem),
    'typ of an LLT': forge({ ...header, typ: 'llt+jwt' }, claims, pem),
    'typ of a refresh token': forge({ ...header, typ: 'rt+jwt' }, claims, pem),
    'a refresh token with typ at+jwt': forge(
      { ...headerOf(pair.refresh_token), typ: 'at+jwt' },
      claims,
      Buffer.from(secret, 'base64url'),
    ),
    'another issuer': forge(header, { ...claims, iss: 'http://localhost:3001' }, pem),
    'no issuer': forge(header, { ...claims, iss: undefined }, pem),
    'another audience': forge(header, { ...claims, aud: 'latchkey2' }, pem),
    'a list of audiences': forge(header, { ...claims, aud: [claims.aud] }, pem),
    'no audience': forge(header, { ...claims, aud: undefined }, pem),
    expired: forge(header, { ...claims, exp: now - 6 }, pem),
    'claims that are no object': forge(header, ['x'], pem),
    'a changed payload': pair.access_token.replace(/\.(.)/, (_, char) => `.${char === 'e' ? 'f' : 'e'}`),
    'a cut signature': pair.access_token.slice(0, -2),
    'no signature': pair.access_token.replace(/[^.]+$/, ''),
    'four parts': `${pair.access_token}.x`,
    'nothing but dots': '..',
    'a header that is no JSON': `x.${pair.access_token.split('.').slice(1).join('.')}`,
    'a header that is null': `bnVsbA.${pair.access_token.split('.').slice(1).join('.')}`,
  };
  for (const [what, token] of Object.entries(bad)) {
    t.equal(await status(token), 401, what);
    t.equal(await status(token), 401, `${what}, again`);
  }
  t.equal(await status(pair.access_token), 200, 'the real token is still valid');
});

test('accepts only refresh tokens that are correct in every respect', async (t) => {
  const { target, pem, secret } = await withKeys(t);
  const pair = await signUp(target);
  const key = Buffer.from(secret, 'base64url');
  const header = headerOf(pair.refresh_token);
  const claims = claimsOf(pair.refresh_token);
  const [head = '', payload = '', signature = ''] = pair.refresh_token.split('.');

  const bad: Record<string, string> = {
    'alg none': forge({ ...header, alg: 'none' }, claims),
    'alg none, signed': forge({ ...header, alg: 'none' }, claims) + signature,
    HS512: forge({ ...header, alg: 'HS512' }, claims, key),
    'ES256 with the signing key': forge({ ...header, alg: 'ES256' }, claims, pem),
    'another secret': forge(header, claims, Buffer.alloc(32)),
    'an unknown kid': forge({ ...header, kid: 'x' }, claims, key),
    'typ of an access token': forge({ ...header, typ: 'at+jwt' }, claims, key),
    'a member that is not ours': forge({ ...header, b64: false }, claims, key),
    'another issuer': forge(header, { ...claims, iss: 'http://localhost:3001' }, key),
    'no issuer': forge(header, { ...claims, iss: undefined }, key),
    'another audience': forge(header, { ...claims, aud: 'latchkey2' }, key),
    'a list of audiences': forge(header, { ...claims, aud: [claims.aud] }, key),
    'no audience': forge(header, { ...claims, aud: undefined }, key),
    'no expiry': forge(header, { ...claims, exp: undefined }, key),
    'claims that are a list': forge(header, ['x'], key),
    'claims that are null': forge(header, null as never, key),
    'claims that are text': forge(header, 'x' as never, key),
    'a changed payload': `${head}.${payload.replace(/^e/, 'f')}.${signature}`,
    'a cut signature': pair.refresh_token.slice(0, -1),
    'a longer signature': `${pair.refresh_token}A`,
    // 32 bytes take 43 characters, whose last two bits say nothing.
    'another spelling of the signature': pair.refresh_token.slice(0, -1) + neighborOf(signature.slice(-1)),
    'no signature': `${head}.${payload}.`,
    'two parts': `${head}.${payload}`,
    'four parts': `${pair.refresh_token}.x`,
  };
  for (const [what, token] of Object.entries(bad)) {
    refused(t, await refresh(target, token), 401, 'invalid_token');
    t.not(token, pair.refresh_token, what);
  }
  const forged = forge(header, claims, key);
  pairOf(await refresh(target, forged));
  t.equal(forged, pair.refresh_token, 'the forgeries differ from a good token in one respect only');
});

/** The character of base64url that differs in the last bit. */
function neighborOf(character: string): string {
  const digits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return digits.charAt(digits.indexOf(character) ^ 1);
}

test('allows five seconds of clock skew, and no more', async (t) => {
  const { target, pem, secret } = await withKeys(t);
  const pair = await signUp(target);
  const now = Math.floor(Date.now() / 1000);
  const aged = (token: string, key: string | Buffer, exp: number) =>
    forge(headerOf(token), { ...claimsOf(token), exp }, key);
  t.equal((await verify(target, aged(pair.access_token, pem, now - 2))).statusCode, 200);
  refused(t, await verify(target, aged(pair.access_token, pem, now - 6)), 401, 'invalid_token');
  const hmac = Buffer.from(secret, 'base64url');
  refused(t, await refresh(target, aged(pair.refresh_token, hmac, now - 6)), 401, 'invalid_token');
  pairOf(await refresh(target, aged(pair.refresh_token, hmac, now - 2)));
});

test('a token that was verified before still expires, and still counts as one type', async (t) => {
  const { target } = await withKeys(t);
  const { keyRing, config } = target.composition.app;
  let [now, isTrusted] = [Date.now(), true];
  const refusals: string[] = [];
  let checks = 0;
  const codec = await makeTokenCodec(keyRing, {
    config,
    observe: { tokenRefused: (reason) => refusals.push(reason), signatureChecked: () => checks++ },
    clock: { now: () => now, isTrusted: () => isTrusted },
  });
  const iat = Math.floor(now / 1000);
  const token = codec.sign('access', { sub: '1', sid: 2, gen: 3, jti: '2.3', iat, exp: iat + 60 });
  for (let i = 0; i < 2; i++) {
    t.match(await codec.verify(token, 'access', 'llt'), { type: 'access', tokenId: 2 });
    t.equal(await codec.verify(token, 'llt'), 'type');
  }
  t.equal(checks, 1, 'its signature was checked once');
  now = (iat + 65) * 1000;
  t.equal(await codec.verify(token, 'access'), 'expired');
  t.match(await codec.verifySigned(token, 'access'), { tokenId: 2 }, 'enough to end its session');
  t.equal(refusals.pop(), 'expired');
  isTrusted = false;
  const counted = refusals.length;
  await t.rejects(codec.verify(token, 'access'), { code: 'unavailable' }, 'the clock may be wrong');
  t.match(await codec.verifySigned(token, 'access'), { tokenId: 2 });
  now = iat * 1000;
  t.match(await codec.verify(token, 'access'), { tokenId: 2 }, 'not expired by that clock either');
  t.equal(refusals.length, counted);
});

test('a token of another issuer or audience is refused', async (t) => {
  const { target, folder, secretFile } = await withKeys(t);
  const pair = await signUp(target);
  for (const [name, value] of [
    ['ISSUER', 'https://auth.example.com'],
    ['AUDIENCE', 'other'],
  ] as const) {
    const other = await buildTestApp(t, {
      databaseUrl: target.databaseUrl,
      env: { SIGNING_KEYS_DIR: folder, REFRESH_TOKEN_SECRET_FILE: secretFile, [name]: value },
    });
    refused(t, await verify(other, pair.access_token), 401, 'invalid_token');
    refused(t, await refresh(other, pair.refresh_token), 401, 'invalid_token');
  }
});
