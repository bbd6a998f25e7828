import type { VerifierClock } from './clock.ts';
import type { KeySet } from './key-set.ts';
import type { ReadToken, TokenCache } from './token-cache.ts';
import type { TokenClaims, VerifiedToken } from './verified-token.ts';
import { invalid } from './verifier-error.ts';

interface Parts {
  /** Checks the signature and everything else. @throws VerifierError */
  read: (token: string) => Promise<ReadToken>;
  cache: TokenCache;
  keys: Pick<KeySet, 'loaded'>;
  clock: Pick<VerifierClock, 'now'>;
  clockTolerance: number;
}

/** Reads a token from the cache, where it saves the check of the signature. */
export function makeReadCached({ read, cache, keys, clock, clockTolerance }: Parts) {
  /** What can change after the first check, besides revocation: the time, and the published keys. */
  function isStillGood({ verified, kid, key }: ReadToken): boolean {
    const now = Math.floor(clock.now() / 1000);
    const { exp = Infinity, nbf = -Infinity } = verified.claims as TokenClaims & { nbf?: number };
    return exp > now - clockTolerance && nbf <= now + clockTolerance && keys.loaded(kid) === key;
  }

  /** @throws VerifierError `invalid_token`, `unavailable` */
  return async function readCached(token: string): Promise<VerifiedToken> {
    // Services in JavaScript may pass anything.
    if (typeof token !== 'string') throw invalid('malformed', 'it is no text');
    const known = cache.get(token);
    if (known && isStillGood(known)) return known.verified;
    cache.delete(token);
    const checked = await read(token);
    cache.add(token, checked);
    return checked.verified;
  };
}
