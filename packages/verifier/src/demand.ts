import type { AnyToken, TokenClaims } from './verified-token.ts';
import { unproven } from './verifier-error.ts';

/** What the login that opened the session must have been (RFC 9470). Only access tokens say it, also exchanged ones. */
export interface Demand {
  /** `mfa`: it used a second factor. `phr`: it used a passkey, which meets a demand for `mfa` too. */
  acr?: 'mfa' | 'phr' | undefined;
  /** It is at most so many seconds ago. */
  maxAge?: number | undefined;
}

/** The `acr` of tokens that meet a demand. */
const MEETS: Readonly<Record<string, readonly unknown[]>> = { mfa: ['mfa', 'phr'], phr: ['phr'] };

/** What a check takes, with the scope. */
const CHECKS: ReadonlySet<string> = new Set(['acr', 'maxAge', 'scope']);

/** @throws TypeError for what cannot be demanded, and for any other name: misspelt, it would demand nothing */
export function checkDemand(checks: Demand): void {
  for (const name of Object.keys(checks))
    if (!CHECKS.has(name)) throw new TypeError(`${name} is not a check: use acr, maxAge or scope`);
  const { acr, maxAge } = checks;
  // `Object.hasOwn` would read the list `['mfa']` as its only member.
  const isAcr = typeof acr === 'string' && Object.hasOwn(MEETS, acr);
  if (acr !== undefined && !isAcr) throw new TypeError('acr must be mfa or phr');
  if (maxAge !== undefined && !(Number.isSafeInteger(maxAge) && maxAge > 0))
    throw new TypeError('maxAge must be a whole number of seconds, from 1');
}

/**
 * @param now seconds since 1970, less the tolerance.
 * @throws VerifierError `insufficient_user_authentication`
 */
export function refuseUnproven(token: AnyToken, demand: Demand, now: number): void {
  const claims: Partial<TokenClaims> = token.tokenType === 'access' ? token.claims : {};
  const { auth_time: authTime, acr } = claims;
  if (demand.acr !== undefined && !MEETS[demand.acr]?.includes(acr))
    throw unproven('acr', challengeOf(demand), acr);
  if (demand.maxAge !== undefined && !(authTime !== undefined && authTime + demand.maxAge > now))
    throw unproven('max_age', challengeOf(demand), authTime);
}

/** The parameters of the challenge. */
function challengeOf({ acr, maxAge }: Demand): string {
  const demanded = [acr && `acr_values="${acr}"`, maxAge && `max_age="${maxAge}"`];
  return demanded.filter(Boolean).join(', ');
}
