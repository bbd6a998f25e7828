import type { Caller } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { CLOCK_TOLERANCE, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { FactorChangeRequest, Proven } from '../factors/proven.ts';
import { makeRecoveryCodes } from '../factors/recovery-codes.ts';
import { fieldError } from '../identifiers.ts';
import type { RandomBytes } from '../passwords/one-time-token.ts';
import { parseDevice } from '../users/device-name.ts';
import { requirePasskeys } from './log-in-with-passkey.ts';
import { CHALLENGE_TTL, type EnrolmentAnswer, type PasskeyStore, type VerifyAnswers } from './ports.ts';

/** How many an account may have. */
export const MAX_PASSKEYS = 10;
/** The account's name for authenticators (WebAuthn Level 3, section 14.6.1): it says nothing of its user. */
export const HANDLE_BYTES = 32;
const CHALLENGE_BYTES = 32;

/** ES256, Ed25519 and RS256 (IANA's COSE algorithms), in the order of preference. */
export const ALGORITHMS = [-7, -8, -257] as const;

interface OwnPasskeysPorts {
  passkeys: Pick<PasskeyStore, 'setUp' | 'findUnconfirmed' | 'confirm'>;
  /** null if passkeys are off. */
  verifyAnswers: VerifyAnswers | null;
  proven: Proven;
  /** FACTOR_ISSUER. */
  issuer: string;
  randomBytes: RandomBytes;
  clock: Clock;
  audit: Audit;
}

interface CredentialDescriptor {
  type: 'public-key';
  id: string;
  transports: string[];
}

/** A PublicKeyCredentialCreationOptionsJSON. */
export interface EnrolmentOptions {
  rp: { id: string; name: string };
  user: { id: string; name: string; displayName: string };
  challenge: string;
  pubKeyCredParams: { type: 'public-key'; alg: number }[];
  timeout: number;
  /** Of the account itself: an authenticator that has one of them makes no other. */
  excludeCredentials: CredentialDescriptor[];
  authenticatorSelection: {
    residentKey: 'required';
    requireResidentKey: true;
    userVerification: 'required';
  };
  attestation: 'none';
  extensions: { credProps: true };
}

/**
 * What users do with their own passkeys. Each throws as the changes of `makeOwnFactors`, and
 * `factors_disabled`.
 */
export function makeOwnPasskeys(ports: OwnPasskeysPorts) {
  const { passkeys, proven, randomBytes, clock, audit } = ports;
  const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');

  return {
    /**
     * Begins an enrolment, in place of a factor that was set up and not confirmed.
     * @throws AuthError also `too_many_factors`, `email_not_verified` (EMAIL_VERIFICATION is set)
     */
    async setUp(caller: Caller, request: FactorChangeRequest): Promise<EnrolmentOptions> {
      const key = proven.caller(caller);
      const { rpId } = requirePasskeys(ports.verifyAnswers);
      const { user, passwordVersion } = await proven.password(caller, request);
      const challenge = randomBytes(CHALLENGE_BYTES);
      const { handle, existing } = await passkeys.setUp(key, {
        handle: randomBytes(HANDLE_BYTES),
        challenge,
        createdAt: clock.now(),
        passwordVersion,
        limit: MAX_PASSKEYS,
      });
      return {
        rp: { id: rpId, name: ports.issuer },
        user: { id: base64url(handle), name: user.username, displayName: user.name },
        challenge: base64url(challenge),
        pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: 'public-key', alg })),
        timeout: CHALLENGE_TTL,
        excludeCredentials: existing.map(({ credentialId, transports }) => ({
          type: 'public-key',
          id: base64url(credentialId),
          transports,
        })),
        authenticatorSelection: {
          residentKey: 'required',
          requireResidentKey: true,
          userVerification: 'required',
        },
        attestation: 'none',
        extensions: { credProps: true },
      };
    },

    /**
     * Confirms the passkey that the caller's session has begun to enrol.
     * @returns recovery codes, to be shown once, with the account's first factor; else null.
     * @throws AuthError also `validation_failed` for the name; `invalid_passkey`, if there is nothing to
     * confirm too; `email_not_verified`
     */
    async confirm(
      caller: Caller,
      given: { name: string; answer: EnrolmentAnswer },
      from: Sourced,
    ): Promise<{ id: number; recoveryCodes: string[] | null }> {
      const key = proven.caller(caller);
      const verifyAnswers = requirePasskeys(ports.verifyAnswers);
      const name = parseDevice(given.name);
      if (!name.ok) throw new AuthError('validation_failed', { errors: [fieldError('/name', name)] });
      const enrolment = await passkeys.findUnconfirmed(key);
      const at = clock.now();
      const isOpen = enrolment && at - enrolment.createdAt < CHALLENGE_TTL + CLOCK_TOLERANCE * 1000;
      const passkey = isOpen && (await verifyAnswers.checkEnrolment(given.answer, enrolment.challenge));
      if (!passkey) throw new AuthError('invalid_passkey');
      const { codes, codeHashes } = makeRecoveryCodes(randomBytes);
      const { factorId } = enrolment;
      const confirmation = { factorId, name: name.value, passkey, at, codeHashes };
      const confirmed = await passkeys.confirm(key, confirmation);
      if (!confirmed) throw new AuthError('invalid_passkey');
      const { userId, tokenId: by } = key;
      audit({ event: 'factor.added', userId, by, factorId, type: 'passkey' }, from);
      return { id: factorId, recoveryCodes: confirmed.isFirst ? codes : null };
    },
  };
}

export type OwnPasskeys = ReturnType<typeof makeOwnPasskeys>;
