import type { AssertionRefusal } from '../refusal-reasons.ts';

/** A subject of an issuer that an operator has named for a service. A pair opens one service. */
export interface ServiceTrust {
  issuer: string;
  subject: string;
}

/** RFC 7517: an issuer's public keys, as an operator gave them. */
export interface PublicJwks {
  keys: readonly object[];
}

// Stryker disable ArrayDeclaration,StringLiteral: below test/infra/issuers, each kind of key and each algorithm is tried

/** By `kty` and `crv` of the key. None is symmetric: with such an algorithm a published key would be the secret. */
export const ALGORITHMS: ReadonlyMap<string, readonly string[]> = new Map([
  ['EC P-256', ['ES256']],
  ['EC P-384', ['ES384']],
  ['EC P-521', ['ES512']],
  ['RSA', ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512']],
  ['OKP Ed25519', ['EdDSA']],
]);

/** Every algorithm that an assertion may have. */
export const ASSERTION_ALGORITHMS = [...ALGORITHMS.values()].flat();
// Stryker restore ArrayDeclaration,StringLiteral

/** Seconds by which the clocks of an issuer and a replica may differ. */
const TOLERANCE = 30;
/** Seconds until the `exp` that is farthest ahead. */
const LONGEST = 86_400;

/**
 * Why the claims of an assertion are refused; null if they are good. `typ` and `jti` do not count: platforms leave `typ`
 * out, and a workload's token is a file that is read many times.
 * @param audience ISSUER. @param now milliseconds since 1970.
 */
export function claimsRefusal(
  { iss, sub, aud, exp, nbf, iat }: Readonly<Record<string, unknown>>,
  { audience, now }: { audience: string; now: number },
): AssertionRefusal | null {
  if (!isId(iss) || !isId(sub) || !isTime(exp) || ![nbf, iat].every(isTimeOrAbsent)) return 'malformed';
  if (!isOnly(aud, audience)) return 'audience';
  const seconds = now / 1000;
  if (exp <= seconds - TOLERANCE) return 'expired';
  if (exp > seconds + LONGEST + TOLERANCE) return 'too_long';
  return [nbf, iat].some((time) => Number(time) > seconds + TOLERANCE) ? 'not_yet_valid' : null;
}

function isId(claim: unknown): boolean {
  return typeof claim === 'string' && claim !== '';
}

/** JSON reads 1e999 as infinite. */
function isTime(claim: unknown): claim is number {
  return Number.isFinite(claim);
}

function isTimeOrAbsent(claim: unknown): boolean {
  return claim === undefined || isTime(claim);
}

/** A token for several audiences would be good at each of them: any could present it here. */
function isOnly(aud: unknown, audience: string): boolean {
  const all: unknown[] = Array.isArray(aud) ? aud : [aud];
  return all.length === 1 && all[0] === audience;
}
