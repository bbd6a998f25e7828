import type { Sourced } from '../audit/source.ts';
import { isAudience } from '../audience.ts';
import type { RegisteredServices } from '../services/authenticate.ts';
import type { RandomBytes } from '../services/secret.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { ExchangeOutcome } from '../metrics/outcomes.ts';
import {
  CLIENT_ID,
  proofClaims,
  RANDOM_JTI_BYTES,
  type ExchangedClaims,
  type PresentedIdentity,
} from '../tokens/claims.ts';
import type { Principal } from '../principal.ts';
import type { TokenRefusal, UserTokenRefusal } from '../refusal-reasons.ts';
import { refusalOf, type Verify } from './verify.ts';

interface ExchangePorts {
  verify: Verify;
  services: Pick<RegisteredServices, 'hasAudience'>;
  /** AUDIENCE. */
  ownAudience: string;
  /** EXCHANGED_TOKEN_TTL in seconds. */
  ttl: number;
  clock: Pick<Clock, 'now' | 'isTrusted'>;
  randomBytes: RandomBytes;
  observe: Pick<Observe, 'exchange'>;
}

/** An access token whose signature, type, issuer, audience and expiry are verified. */
export type Subject = PresentedIdentity & { type: 'access' };

interface Target {
  audience: string;
  /** The service that asks; null if the user's own client does. */
  serviceId: string | null;
}

/**
 * Makes the claims of a token for one audience (RFC 8693). Like any use of an access token, an exchange confirms its
 * pair. It writes nothing: the new token is bound to the session, and every check of it asks whether that lives.
 * @throws AuthError `invalid_subject_token`, `invalid_target`, `unavailable`
 */
export function makeExchange(ports: ExchangePorts) {
  const { verify, services, ownAudience, ttl, clock, randomBytes, observe } = ports;

  async function principalOf(subject: Subject, from: Sourced): Promise<Principal> {
    try {
      return await verify(subject, from);
    } catch (error) {
      const reason = refusalOf(error) as UserTokenRefusal | null;
      throw reason ? new AuthError('invalid_subject_token', { reason }) : error;
    }
  }

  async function checkTarget(audience: string): Promise<void> {
    const isPossible = audience !== ownAudience && isAudience(audience);
    if (!isPossible || !(await services.hasAudience(audience))) throw new AuthError('invalid_target');
  }

  /** @param subject the reason if the token is not ours, not an access token for AUDIENCE, or has expired. */
  async function claimsFor(
    subject: Subject | TokenRefusal,
    { audience, serviceId }: Target,
    from: Sourced,
  ): Promise<ExchangedClaims> {
    if (typeof subject === 'string') throw new AuthError('invalid_subject_token', { reason: subject });
    const { user, tokenId, generation } = await principalOf(subject, from);
    await checkTarget(audience);
    // Both times of the token would be wrong, and the service that gets it would refuse it.
    if (!clock.isTrusted()) throw new AuthError('unavailable');
    const iat = Math.floor(clock.now() / 1000);
    const exp = Math.min(subject.expiresAt ?? 0, iat + ttl);
    // A check accepts a token for some seconds after its expiry. A new token has to live for one at least.
    if (exp <= iat) throw new AuthError('invalid_subject_token', { reason: 'expired' });
    return {
      sub: String(user.id),
      sid: tokenId,
      gen: generation,
      jti: randomBytes(RANDOM_JTI_BYTES).toString('base64url'),
      iat,
      exp,
      aud: audience,
      client_id: serviceId ?? CLIENT_ID,
      ...(serviceId !== null && { act: { sub: serviceId } }),
      // The present state: what was taken away since the subject token was issued is not passed on.
      roles: user.roles,
      ...(user.emailVerified && { email_verified: true as const }),
      ...proofClaims(subject),
    };
  }

  return async function exchange(
    subject: Subject | TokenRefusal,
    target: Target,
    from: Sourced,
  ): Promise<ExchangedClaims> {
    try {
      const claims = await claimsFor(subject, target, from);
      observe.exchange('issued');
      return claims;
    } catch (error) {
      observe.exchange(outcomeOf(error));
      throw error;
    }
  };
}

function outcomeOf(error: unknown): ExchangeOutcome {
  const code = error instanceof AuthError ? error.code : undefined;
  if (code === 'invalid_subject_token') return 'subject';
  return code === 'invalid_target' ? 'target' : 'unavailable';
}

export type Exchange = ReturnType<typeof makeExchange>;
