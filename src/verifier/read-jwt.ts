import { errors, jwtVerify } from 'jose';
import type { VerifierClock } from './clock.ts';
import { ALGORITHMS, type KeySet } from './key-set.ts';
import type { Settings } from './options.ts';
import { readToken, tokenTypeOf, type VerifiedToken } from './verified-token.ts';
import { VerifierError } from './verifier-error.ts';

interface Parts {
  keys: Pick<KeySet, 'find'>;
  settings: Pick<Settings, 'issuer' | 'audience' | 'clockTolerance' | 'acceptLongLived'>;
  clock: Pick<VerifierClock, 'now'>;
}

/** Verifies signature, type, issuer, audience and expiry of a token. Does not check revocation. */
export function makeReadJwt({ keys, settings, clock }: Parts) {
  const { issuer, audience, clockTolerance, acceptLongLived } = settings;

  /** @throws VerifierError `invalid_token`, `unavailable` */
  return async function readJwt(token: string): Promise<VerifiedToken> {
    const options = { algorithms: ALGORITHMS, issuer, audience, clockTolerance };
    try {
      const { payload, protectedHeader } = await jwtVerify(
        token,
        async ({ typ, kid, alg }) => {
          const tokenType = tokenTypeOf(typ);
          if (tokenType === null) throw invalid('it is neither an access token nor a long-lived one');
          if (tokenType === 'llt' && !acceptLongLived)
            throw invalid('this service does not accept long-lived tokens');
          const found = typeof kid === 'string' ? await keys.find(kid) : null;
          // The key decides on the algorithm, not the token.
          if (found?.algorithm !== alg) throw invalid('it is signed with an unknown key');
          return found.key;
        },
        { ...options, currentDate: new Date(clock.now()) },
      );
      const tokenType = tokenTypeOf(protectedHeader.typ);
      const verified = tokenType && readToken(payload, tokenType);
      if (!verified) throw invalid('its claims are not those of a Latchkey token');
      return verified;
    } catch (error) {
      if (error instanceof VerifierError) throw error;
      // Only the code: the message and the payload of the error may contain data from the client.
      if (error instanceof errors.JOSEError) throw invalid(error.code);
      throw new VerifierError('unavailable', `the signature could not be checked: ${(error as Error).name}`);
    }
  };
}

export function invalid(reason: string): VerifierError {
  return new VerifierError('invalid_token', `the token is not good: ${reason}`);
}
