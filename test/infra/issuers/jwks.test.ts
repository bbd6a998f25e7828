import { generateKeyPairSync, type JsonWebKey, type KeyObject } from 'node:crypto';
import { test } from 'tap';
import { parseJwks, usableKeys } from '../../../src/infra/issuers/jwks.ts';

const jwk = (key: KeyObject, more: JsonWebKey = {}) => ({ ...key.export({ format: 'jwk' }), ...more });
const ec = (namedCurve = 'P-256') => generateKeyPairSync('ec', { namedCurve });
const rsa = (modulusLength = 2048) => generateKeyPairSync('rsa', { modulusLength });
const publicEc = (more?: JsonWebKey) => jwk(ec().publicKey, more);

const SYMMETRIC = { kty: 'oct', k: 'c2VjcmV0', kid: 'symmetric' };

test('a key fits the algorithms of its type, or the one that it names', (t) => {
  const algorithmsOf = (key: object) => usableKeys({ keys: [key] })[0]?.algorithms.join(' ');
  t.equal(algorithmsOf(publicEc()), 'ES256');
  t.equal(algorithmsOf(jwk(ec('P-384').publicKey)), 'ES384');
  t.equal(algorithmsOf(jwk(ec('P-521').publicKey)), 'ES512');
  t.equal(algorithmsOf(jwk(generateKeyPairSync('ed25519').publicKey)), 'EdDSA');
  const key = jwk(rsa().publicKey);
  t.equal(algorithmsOf(key), 'RS256 RS384 RS512 PS256 PS384 PS512');
  t.equal(algorithmsOf(publicEc({ use: 'jwt-svid' })), 'ES256', 'SPIFFE');
  t.equal(algorithmsOf({ ...key, alg: 'PS256', use: 'sig', key_ops: ['verify'] }), 'PS256');
  t.end();
});

test('keys that are not usable are left out', (t) => {
  const unusable = [
    SYMMETRIC,
    jwk(ec().privateKey),
    jwk(rsa().privateKey),
    jwk(rsa(1024).publicKey),
    jwk(ec('secp256k1').publicKey),
    jwk(generateKeyPairSync('x25519').publicKey),
    publicEc({ use: 'enc' }),
    publicEc({ key_ops: ['encrypt'] }),
    publicEc({ alg: 'HS256' }),
    publicEc({ alg: 'ES384' }),
    publicEc({ kid: 7 as unknown as string }),
    publicEc({ x: 'AAAA' }),
    {},
  ];
  const kids = usableKeys({ keys: [...unusable, publicEc({ kid: 'good' })] }).map(({ kid }) => kid);
  t.strictSame(kids, ['good']);
  t.end();
});

test('a file keeps its usable keys, and of these what we use', (t) => {
  const key = publicEc({ kid: 'a' });
  const other = { kty: 'EC', crv: 'P-192', kid: 'unknown' };
  const text = JSON.stringify({ keys: [{ ...key, x5u: 'https://keys.example.com' }, other], more: 1 });
  t.strictSame(parseJwks(text), { keys: [key] });
  t.end();
});

test('a file that is refused', (t) => {
  const privateKey = jwk(ec().privateKey, { kid: 'b' });
  const refused: [RegExp, unknown][] = [
    [/no JSON object with an array "keys"/, [publicEc()]],
    [/no JSON object/, null],
    [/no JSON object/, { keys: {} }],
    [/^key 2 is private or symmetric/, { keys: [publicEc({ kid: 'a' }), privateKey] }],
    [/^key 1 is private or symmetric/, { keys: [SYMMETRIC] }],
    [/no usable key$/, { keys: [] }],
    [
      /no usable key; key 1 is neither RSA,.*; key 2 is not for sig/,
      { keys: [{}, publicEc({ use: 'enc' })] },
    ],
    [/each needs a kid/, { keys: [publicEc({ kid: 'a' }), publicEc()] }],
    [/larger than 65536 bytes/, { keys: [publicEc()], more: 'x'.repeat(65_536) }],
  ];
  for (const [message, file] of refused) t.match(parseJwks(JSON.stringify(file)), message);
  t.match(parseJwks('{'), /no JSON object/);
  t.end();
});
