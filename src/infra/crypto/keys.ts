import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from 'node:crypto';
import type { PublicJwk, RefreshSecret, SigningKey } from '../../domain/access-tokens/ports.ts';

/** A key or secret is unusable. The message says why and contains no part of it. */
export class KeyError extends Error {
  override name = 'KeyError';
}

/** HS256's own output length (RFC 7518, section 3.2). */
const MIN_SECRET_BYTES = 32;
const MIN_RSA_BITS = 2048;

/**
 * Reads a PEM private key: EC P-256 signs ES256, Ed25519 EdDSA, RSA RS256.
 * @param name the file name. A date at its start is the key's date, and more reliable than the time of the file: a
 * mounted Secret is written again for every pod.
 * @param writtenAt time of the file, in milliseconds since 1970.
 * @throws KeyError
 */
export function parseSigningKey(pem: string, name: string, writtenAt = 0): SigningKey {
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch {
    throw new KeyError(`${name} is not an unencrypted PEM private key`);
  }
  const publicKey = createPublicKey(key);
  const jwk = publicJwk(publicKey);
  return {
    kid: thumbprint(jwk),
    algorithm: algorithmOf(key, name),
    privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: publicKey.export({ type: 'spki', format: 'pem' }).toString(),
    jwk,
    createdAt: dateIn(name) ?? writtenAt,
  };
}

/** The date at the start of a name. */
function dateIn(name: string): number | null {
  const date = Date.parse(/^\d{4}-\d{2}-\d{2}(?!\d)/.exec(name)?.[0] ?? '');
  return Number.isNaN(date) ? null : date;
}

/** A new key, as PEM. */
export function generateSigningKey(algorithm: SigningKey['algorithm'] = 'ES256'): string {
  const { privateKey } = newPair(algorithm);
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function newPair(algorithm: SigningKey['algorithm']) {
  if (algorithm === 'RS256') return generateKeyPairSync('rsa', { modulusLength: MIN_RSA_BITS });
  if (algorithm === 'EdDSA') return generateKeyPairSync('ed25519');
  return generateKeyPairSync('ec', { namedCurve: 'P-256' });
}

/** Reads REFRESH_TOKEN_SECRET: base64url secrets, comma-separated. @throws KeyError */
export function parseRefreshSecrets(text: string): RefreshSecret[] {
  const secrets = parseSecrets(text, 'secret');
  for (const [i, { secret }] of secrets.entries()) {
    if (secret.length < MIN_SECRET_BYTES)
      throw new KeyError(`secret ${i + 1} has ${secret.length} bytes, ${MIN_SECRET_BYTES} are needed`);
  }
  return secrets;
}

/**
 * Reads a setting that holds base64url texts, comma-separated, each with an id that is taken from its hash.
 * @param what names one of them in messages.
 * @throws KeyError
 */
export function parseSecrets(text: string, what: string): { kid: string; secret: Buffer }[] {
  return text.split(',').map((part, i) => {
    const encoded = part.trim();
    const secret = Buffer.from(encoded, 'base64url');
    // Node's decoder skips invalid characters: without this check, a typo would silently be another secret on one
    // replica.
    if (secret.toString('base64url') !== encoded.replace(/=+$/, ''))
      throw new KeyError(`${what} ${i + 1} is not base64url`);
    return { kid: createHash('sha256').update(secret).digest('base64url').slice(0, 16), secret };
  });
}

function algorithmOf(key: KeyObject, name: string): SigningKey['algorithm'] {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ec' && details?.namedCurve === 'prime256v1') return 'ES256';
  if (type === 'ed25519') return 'EdDSA';
  if (type === 'rsa') {
    if ((details?.modulusLength ?? 0) >= MIN_RSA_BITS) return 'RS256';
    throw new KeyError(`${name} is an RSA key of fewer than ${MIN_RSA_BITS} bits`);
  }
  throw new KeyError(`${name} is neither EC P-256, Ed25519 nor RSA`);
}

/** Only the members that RFC 7638 requires: those that make up the public key. */
function publicJwk(publicKey: KeyObject): PublicJwk {
  const jwk = publicKey.export({ format: 'jwk' }) as Record<string, string>;
  const { kty = '' } = jwk;
  const members =
    { EC: ['crv', 'kty', 'x', 'y'], OKP: ['crv', 'kty', 'x'], RSA: ['e', 'kty', 'n'] }[kty] ?? [];
  return { kty, ...Object.fromEntries(members.map((member) => [member, jwk[member]])) };
}

/** RFC 7638: the hash of the required members in lexicographic order. */
function thumbprint(jwk: PublicJwk): string {
  const sorted = Object.entries(jwk).sort(([one], [other]) => (one < other ? -1 : 1));
  return createHash('sha256')
    .update(JSON.stringify(Object.fromEntries(sorted)))
    .digest('base64url');
}
