import { decodeJwt, errors, jwtVerify } from 'jose';
import type { VerifierClock } from './clock.ts';
import type { KeySet, VerificationKey } from './key-set.ts';
import type { Settings } from './options.ts';
import type { ReadToken } from './token-cache.ts';
import {
  fits,
  LIMITED_AUDIENCE,
  LIMITED_TYP,
  readLimitedToken,
  readToken,
  tokenTypeOf,
  type AnyToken,
} from './verified-token.ts';
import { invalid, unavailable, VerifierError, wrongType } from './verifier-error.ts';

interface Parts {
  keys: Pick<KeySet, 'find'>;
  settings: Pick<Settings, 'issuer' | 'audience' | 'clockTolerance' | 'accept'>;
  clock: Pick<VerifierClock, 'now'>;
}

/** The one spelling of a token. jose also takes padding, and white space within the signature. */
export const COMPACT = /^[\w-]+\.[\w-]+\.[\w-]+$/;

/** Verifies signature, type, issuer, audience and times of a token. Does not check revocation. */
export function makeReadJwt({ keys, settings, clock }: Parts) {
  const { issuer, audience, clockTolerance, accept } = settings;

  async function keyOf(kid: unknown, alg: unknown, token: string): Promise<VerificationKey> {
    const found = typeof kid === 'string' ? await keys.find(kid) : null;
    // The key decides on the algorithm, not the token. A list for jose would hide the type of a refresh token (HS256).
    if (found && found.algorithm === alg) return found;
    const iss = unverifiedIssuer(token);
    if (iss !== undefined && iss !== issuer) throw ofAnotherIssuer(issuer, iss);
    throw invalid('unknown_key', 'it is signed with a key or algorithm that Latchkey does not publish');
  }

  /** @throws VerifierError `invalid_token` */
  function readAccepted(payload: object, typ: unknown): AnyToken | null {
    const tokenType = tokenTypeOf(typ, payload);
    if (!accept.includes(tokenType)) throw wrongType(accept, tokenType);
    return readToken(payload, tokenType);
  }

  /**
   * Reads limited tokens besides the types that the verifier accepts, because a good one is refused otherwise
   * than a bad one.
   * @throws VerifierError `invalid_token`, `unavailable`
   */
  return async function readJwt(token: string): Promise<ReadToken> {
    let signedWith: VerificationKey | undefined;
    try {
      if (!COMPACT.test(token)) throw invalid('malformed', 'it is no JWT');
      const { payload, protectedHeader } = await jwtVerify(
        token,
        async ({ typ, kid, alg }) => {
          if (!fits(typ, accept) && typ !== LIMITED_TYP) throw wrongType(accept, typ);
          signedWith = await keyOf(kid, alg, token);
          return signedWith.key;
        },
        { issuer, clockTolerance, currentDate: new Date(clock.now()) },
      );
      const { typ, kid } = protectedHeader;
      const isLimited = typ === LIMITED_TYP;
      checkAudience(payload.aud, isLimited ? audience + LIMITED_AUDIENCE : audience);
      const verified = isLimited ? readLimitedToken(payload) : readAccepted(payload, typ);
      if (!verified || !signedWith || kid === undefined)
        throw invalid('malformed', 'its claims are not those of a Latchkey token');
      return { verified, kid, key: signedWith };
    } catch (error) {
      throw asVerifierError(error, issuer);
    }
  };
}

/** Only tokens for exactly this audience: a token for several would be good at each of them. */
function checkAudience(aud: unknown, audience: string): void {
  const [only, ...others] = Array.isArray(aud) ? (aud as unknown[]) : [aud];
  if (only === audience && others.length === 0) return;
  const found = others.length === 0 ? only : JSON.stringify(aud);
  throw invalid('audience', 'it is for another audience', { expected: audience, found });
}

/** Uses no message of jose and no `cause`: both may contain data from the token. */
function asVerifierError(error: unknown, issuer: string): VerifierError {
  if (error instanceof VerifierError) return error;
  if (error instanceof errors.JWTExpired) return invalid('expired', 'it has expired');
  if (error instanceof errors.JWTClaimValidationFailed) {
    const { claim, payload } = error;
    if (claim === 'iss') return ofAnotherIssuer(issuer, payload.iss);
    if (claim === 'nbf' && typeof payload.nbf === 'number')
      return invalid('not_yet_valid', 'it is not valid yet');
    return invalid('malformed', 'its claims are not those of a Latchkey token');
  }
  if (error instanceof errors.JWSSignatureVerificationFailed)
    return invalid('signature', 'its signature is wrong');
  if (error instanceof errors.JOSEError) return invalid('malformed', error.code);
  return unavailable('fault', `the signature could not be checked: ${(error as Error).name}`);
}

function ofAnotherIssuer(expected: string, found: unknown): VerifierError {
  return invalid('issuer', 'it is of another issuer', { expected, found });
}

/** For the message only: a token of another installation has an unknown key, and its issuer says more. */
function unverifiedIssuer(token: string): unknown {
  try {
    return decodeJwt(token).iss;
  } catch {
    return undefined;
  }
}
