import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { ALGORITHMS, type PublicJwks } from '../../domain/services/assertion.ts';

/** A public key of an issuer. */
export interface IssuerKey {
  kid: string | undefined;
  key: KeyObject;
  /** Those that fit it: one, or for an RSA key without `alg` several. */
  algorithms: readonly string[];
}

/** RFC 7517, section 4.2, and how SPIFFE marks the keys of JWT-SVIDs. */
const USES: unknown[] = ['sig', 'jwt-svid'];

const MIN_RSA_BITS = 2048;
const MAX_FILE_BYTES = 65_536;
/** The members of a private or symmetric key (RFC 7518, section 6). */
const SECRET_MEMBERS = ['d', 'p', 'q', 'dp', 'dq', 'qi', 'oth', 'k'];

/** The usable keys of a key set. The others are left out: an issuer may publish keys of kinds that we do not know. */
export function usableKeys({ keys }: PublicJwks): IssuerKey[] {
  return keys.map(readKey).filter((key) => typeof key === 'object');
}

/** Reads a fetched key set. @returns null if it is none. */
export function readJwks(value: unknown): PublicJwks | null {
  const { keys } = Object(value) as { keys?: unknown };
  return Array.isArray(keys) ? { keys: keys.map(Object) as object[] } : null;
}

/**
 * Reads the file of `client trust --jwks FILE`.
 * @returns the usable keys, without members that we do not use; a message if the file must be refused.
 */
export function parseJwks(text: string): PublicJwks | string {
  if (Buffer.byteLength(text) > MAX_FILE_BYTES) return `the key set is larger than ${MAX_FILE_BYTES} bytes`;
  const jwks = readJwks(parseJson(text));
  if (!jwks) return 'the key set is no JSON object with an array "keys" (RFC 7517)';
  const secret = jwks.keys.findIndex(isSecret);
  if (secret >= 0) return `key ${secret + 1} is private or symmetric: give the public keys only`;
  const usable = jwks.keys.filter((jwk) => typeof readKey(jwk) === 'object');
  if (usable.length === 0) {
    const problems = jwks.keys.map(readKey).map((problem, i) => `; key ${i + 1} ${problem as string}`);
    return `the key set contains no usable key${problems.join('')}`;
  }
  if (usable.length > 1 && usable.some((jwk) => !('kid' in jwk)))
    return 'the key set contains several keys: each needs a kid';
  return { keys: usable.map((jwk) => publicMembers(jwk)) };
}

/** @returns why the key is not usable, to follow its name. */
function readKey(jwk: object): IssuerKey | string {
  if (isSecret(jwk)) return 'is private or symmetric';
  const { kid, alg, use = 'sig', key_ops: operations = ['verify'], ...members } = jwk as JsonWebKey;
  if (kid !== undefined && typeof kid !== 'string') return 'has a kid that is no string';
  if (!USES.includes(use) || !Array.isArray(operations) || !operations.includes('verify'))
    return 'is not for signatures';
  const { kty, crv } = members;
  const fitting = ALGORITHMS.get(kty === 'RSA' ? kty : `${String(kty)} ${String(crv)}`);
  if (!fitting) return 'is neither RSA, P-256, P-384, P-521 nor Ed25519';
  const algorithms = alg === undefined ? fitting : fitting.filter((each) => each === alg);
  if (algorithms.length === 0) return 'has an alg that does not fit it';
  try {
    const key = createPublicKey({ key: publicMembers(members), format: 'jwk' });
    const bits = key.asymmetricKeyDetails?.modulusLength ?? Infinity;
    return bits < MIN_RSA_BITS ? `has fewer than ${MIN_RSA_BITS} bits` : { kid, key, algorithms };
  } catch {
    return 'is malformed';
  }
}

function isSecret(jwk: object): boolean {
  return (jwk as JsonWebKey).kty === 'oct' || SECRET_MEMBERS.some((member) => member in jwk);
}

function publicMembers(jwk: object): JsonWebKey {
  const { kid, alg, use, kty, crv, x, y, n, e } = jwk as JsonWebKey;
  return JSON.parse(JSON.stringify({ kid, alg, use, kty, crv, x, y, n, e })) as JsonWebKey;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
