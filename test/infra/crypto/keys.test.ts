import { createHash, generateKeyPairSync } from 'node:crypto';
import { test } from 'tap';
import {
  generateSigningKey,
  KeyError,
  parseRefreshSecrets,
  parseSigningKey,
} from '../../../src/infra/crypto/keys.ts';

const pem = (key: { export(options: { type: 'pkcs8'; format: 'pem' }): string | Buffer }) =>
  key.export({ type: 'pkcs8', format: 'pem' }).toString();

test('the algorithm follows from the kind of key', (t) => {
  const keys = {
    ES256: generateSigningKey(),
    EdDSA: pem(generateKeyPairSync('ed25519').privateKey),
    RS256: pem(generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey),
  };
  for (const [algorithm, text] of Object.entries(keys))
    t.equal(parseSigningKey(text, 'a.pem').algorithm, algorithm);
  t.end();
});

test('the key id is the RFC 7638 thumbprint', (t) => {
  // The example of RFC 7638, section 3.1, uses RSA. Here are its steps for a P-256 key.
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { x, y } = publicKey.export({ format: 'jwk' });
  const canonical = `{"crv":"P-256","kty":"EC","x":"${x}","y":"${y}"}`;
  const expected = createHash('sha256').update(canonical).digest('base64url');
  t.equal(parseSigningKey(pem(privateKey), 'a.pem').kid, expected);
  t.end();
});

test('a key that is unsafe to sign with is refused by name, without its content', (t) => {
  const weak = pem(generateKeyPairSync('rsa', { modulusLength: 1024 }).privateKey);
  const odd = pem(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).privateKey);
  const publicOnly = generateKeyPairSync('ed25519')
    .publicKey.export({ type: 'spki', format: 'pem' })
    .toString();
  for (const text of [weak, odd, publicOnly, 'not a key', '']) {
    t.throws(() => parseSigningKey(text, 'a.pem'), KeyError);
    t.throws(() => parseSigningKey(text, 'a.pem'), /^a\.pem is/);
  }
  t.end();
});

test('secrets are read in order, with different ids that do not reveal them', (t) => {
  const [one, two] = [Buffer.alloc(32, 1), Buffer.alloc(48, 2)];
  const secrets = parseRefreshSecrets(`${one.toString('base64url')}, ${two.toString('base64url')}`);
  t.strictSame(
    secrets.map(({ secret }) => secret),
    [one, two],
  );
  t.not(secrets[0]?.kid, secrets[1]?.kid);
  t.notOk(one.toString('base64url').includes(secrets[0]?.kid ?? ''));
  t.end();
});

test('a secret that is short or mistyped is refused', (t) => {
  t.throws(() => parseRefreshSecrets(Buffer.alloc(31).toString('base64url')), /has 31 bytes/);
  t.throws(() => parseRefreshSecrets(`${'a'.repeat(42)}!`), /not base64url/);
  t.throws(() => parseRefreshSecrets('a'.repeat(45)), /not base64url/);
  t.throws(() => parseRefreshSecrets(`${'a'.repeat(44)},`), /secret 2 has 0 bytes/);
  t.end();
});

test('the age of a key comes from the date in its name, or from its file', (t) => {
  const text = generateSigningKey();
  const createdAt = (name: string) => parseSigningKey(text, name, 5000).createdAt;
  t.equal(createdAt('2026-11-21.pem'), Date.parse('2026-11-21T00:00:00Z'));
  t.equal(createdAt('2026-11-21-b.pem'), Date.parse('2026-11-21T00:00:00Z'));
  for (const name of ['0001.pem', '2026-13-01.pem', '2026-11-211.pem', 'x2026-11-21.pem']) {
    t.equal(createdAt(name), 5000, name);
  }
  t.end();
});
