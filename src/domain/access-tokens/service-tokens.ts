import { isAudience } from '../audience.ts';
import type { RegisteredServices } from '../services/authenticate.ts';
import type { RandomBytes } from '../services/secret.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { ServiceTokenOutcome } from '../metrics/outcomes.ts';
import type { ServiceBearer, ServicePrincipal } from '../principal.ts';
import type { ServiceRefusal } from '../refusal-reasons.ts';
import { callRight } from '../rights.ts';
import { RANDOM_JTI_BYTES, type ServiceClaims } from '../tokens/claims.ts';
import { refusalOf } from './verify.ts';

interface ServiceTokenPorts {
  services: Pick<RegisteredServices, 'authenticateToken' | 'admitAgain' | 'find' | 'hasAudience'>;
  /** ISSUER: the audience of tokens for this service itself. */
  issuer: string;
  /** AUDIENCE: that of users' tokens, and of no service token. */
  ownAudience: string;
  /** SERVICE_TOKEN_TTL in seconds. */
  ttl: number;
  clock: Pick<Clock, 'now' | 'isTrusted'>;
  randomBytes: RandomBytes;
  observe: Pick<Observe, 'serviceVerification' | 'serviceToken'>;
}

/** Tokens of services: made and checked in memory, with the registered services alone. */
export function makeServiceTokens(ports: ServiceTokenPorts) {
  const { services, issuer, ownAudience, ttl, clock, randomBytes, observe } = ports;

  async function claimsFor(identity: ServiceIdentity, audience: string): Promise<ServiceClaims> {
    // For this service itself no right is needed: the service's rights are checked whenever the token is used.
    const isForUs = audience === issuer;
    if (!isForUs) await services.admitAgain(identity, callRight(audience));
    const isPossible = isForUs || (audience !== ownAudience && isAudience(audience));
    if (!isPossible || !(isForUs || (await services.hasAudience(audience))))
      throw new AuthError('invalid_target');
    const service = services.find(identity.serviceId);
    // The service was deleted a moment ago; or both times of the token would be wrong.
    if (!service || !clock.isTrusted()) throw new AuthError('unavailable');
    const iat = Math.floor(clock.now() / 1000);
    return {
      sub: service.serviceId,
      client_id: service.serviceId,
      client_version: service.version,
      jti: randomBytes(RANDOM_JTI_BYTES).toString('base64url'),
      iat,
      exp: iat + ttl,
      aud: audience,
      roles: service.roles,
    };
  }

  return {
    /**
     * The claims of a token with which a service calls another one, or this one (RFC 6749, section 4.4).
     * @param audience a registered one, or ISSUER.
     * @throws AuthError `right_missing`, `invalid_target`, `unavailable`
     */
    async issue(identity: ServiceIdentity, audience: string): Promise<ServiceClaims> {
      try {
        const claims = await claimsFor(identity, audience);
        observe.serviceToken('issued');
        return claims;
      } catch (error) {
        observe.serviceToken(issueOutcomeOf(error));
        throw error;
      }
    },

    /**
     * Checks a service token at the service of its audience: the service must still have the right to call it.
     * @throws AuthError `invalid_token`, `unavailable`
     */
    async verify(token: ServiceBearer): Promise<ServicePrincipal> {
      try {
        const { serviceId } = await services.authenticateToken(token, callRight(token.audience));
        observe.serviceVerification('good');
        return { type: 'service', serviceId, roles: services.find(serviceId)?.roles ?? [] };
      } catch (error) {
        const isBarred = error instanceof AuthError && error.code === 'right_missing';
        const { serviceId } = token;
        const refusal = isBarred ? new AuthError('invalid_token', { reason: 'right', serviceId }) : error;
        const reason = refusalOf(refusal) as ServiceRefusal | 'expired' | null;
        observe.serviceVerification(reason ?? 'unavailable');
        throw refusal;
      }
    },
  };
}

function issueOutcomeOf(error: unknown): ServiceTokenOutcome {
  const code = error instanceof AuthError ? error.code : undefined;
  if (code === 'right_missing') return 'right';
  return code === 'invalid_target' ? 'target' : 'unavailable';
}

export type ServiceTokens = ReturnType<typeof makeServiceTokens>;
