import { hasPassed, expiredError, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { ServiceBearer } from '../principal.ts';
import type { AssertionRefusal } from '../refusal-reasons.ts';
import type { Right } from '../rights.ts';
import type { ServiceDirectory } from './directory.ts';
import { hashSecret, isHashOf } from './secret.ts';
import type { ServiceTrust } from './assertion.ts';
import type { Proof, RegisteredService, ServiceIdentity } from './registered-service.ts';

/**
 * Checks what a service presents instead of a secret (RFC 7523).
 * @param serviceId the only service that it may open; undefined for any.
 * @returns the service that it opens, or the reason for the refusal.
 * @throws AuthError `unavailable`
 */
export type CheckAssertion = (
  assertion: string,
  serviceId: string | undefined,
) => Promise<ServiceIdentity | AssertionRefusal>;

/** Authenticates registered services, and checks what they may do. A right that is null is not asked for. */
export interface RegisteredServices {
  /** @throws AuthError `invalid_client`, `right_missing`, `unavailable` */
  authenticate(serviceId: string, secret: string, right: Right | null): Promise<ServiceIdentity>;
  /**
   * Admits the service of a workload that its issuer has vouched for.
   * @throws AuthError `invalid_client`, `right_missing`, `unavailable`
   */
  authenticateWorkload(trust: ServiceTrust, right: Right | null): Promise<ServiceIdentity>;
  /**
   * Admits the service of a service token whose signature, issuer, audience and expiry are verified.
   * @throws AuthError `invalid_token`, `right_missing`, `unavailable`
   */
  authenticateToken(token: ServiceBearer, right: Right | null): Promise<ServiceIdentity>;
  /**
   * Why the service may not go on; null if it may. In memory: for requests and connections that outlive their
   * authentication.
   */
  refusalOf(identity: ServiceIdentity, right: Right | null): AuthError | null;
  /**
   * As `authenticate`, for a service that has authenticated and asks for more, or whose body has arrived meanwhile.
   * @throws AuthError `invalid_client`, `invalid_token`, `right_missing`, `unavailable`
   */
  admitAgain(identity: ServiceIdentity, right: Right | null): Promise<ServiceIdentity>;
  /** The service as it is now. undefined if it is not registered. */
  find(serviceId: string): RegisteredService | undefined;
  /** Whether a registered service has this audience. @throws AuthError `unavailable` */
  hasAudience(audience: string): Promise<boolean>;
}

/**
 * Answers from memory. If a secret, a workload, a version or an audience is unknown, or the service lacks the right, the
 * directory is loaded again first: the service, its secret or its right may be new. If the database is down, the answer
 * is therefore `unavailable`, not a refusal.
 */
export function makeRegisteredServices(
  directory: Pick<ServiceDirectory, 'find' | 'findTrusting' | 'hasAudience' | 'refresh'>,
  clock: Pick<Clock, 'now' | 'isTrusted'>,
): RegisteredServices {
  const refusalOf: RegisteredServices['refusalOf'] = ({ serviceId, proof }, right) =>
    refusal(directory.find(serviceId), proof, right);

  function refusal(
    service: RegisteredService | undefined,
    proof: Proof,
    right: Right | null,
  ): AuthError | null {
    const failure =
      proof.by === 'token' ? tokenFailure(service, proof.token) : credentialFailure(service, proof);
    if (failure) return failure;
    // Stryker disable next-line OptionalChaining: a service that was not found has failed above
    const isMissing = right !== null && service?.rights.includes(right) !== true;
    return isMissing ? new AuthError('right_missing', { right, ...idOf(service) }) : null;
  }

  function tokenFailure(
    service: RegisteredService | undefined,
    { version, expiresAt }: ServiceBearer,
  ): AuthError | null {
    const refused = (reason: 'gone' | 'disabled' | 'revoked') =>
      new AuthError('invalid_token', { reason, ...idOf(service) });
    if (!service) return refused('gone');
    if (service.disabledAt !== null) return refused('disabled');
    if (service.version !== version) return refused('revoked');
    return hasPassed(expiresAt, clock.now()) ? expiredError(clock, 'invalid_token') : null;
  }

  async function admit(
    find: () => RegisteredService | undefined,
    proof: Proof,
    right: Right | null,
  ): Promise<ServiceIdentity> {
    let service = find();
    let failure = refusal(service, proof, right);
    // Loading cannot help an older version: versions only rise.
    const isOlder = proof.by === 'token' && service !== undefined && proof.token.version < service.version;
    if (failure && !isOlder) {
      await directory.refresh();
      service = find();
      failure = refusal(service, proof, right);
    }
    if (failure) throw failure;
    // Stryker disable next-line all: a service that was not found has failed above
    if (!service) throw new AuthError('internal_error');
    const { serviceId, name, audience } = service;
    return { serviceId, name, audience, proof };
  }

  return {
    authenticate: (serviceId, secret, right) =>
      admit(() => directory.find(serviceId), { by: 'secret', secretHash: hashSecret(secret) }, right),
    authenticateWorkload: (trust, right) =>
      admit(() => directory.findTrusting(trust), { by: 'assertion', trust }, right),
    authenticateToken: (token, right) =>
      admit(() => directory.find(token.serviceId), { by: 'token', token }, right),
    admitAgain: ({ serviceId, proof }, right) => admit(() => directory.find(serviceId), proof, right),
    refusalOf,
    find: (serviceId) => directory.find(serviceId),
    async hasAudience(audience) {
      if (directory.hasAudience(audience)) return true;
      await directory.refresh();
      return directory.hasAudience(audience);
    },
  };
}

/** The hash is compared for an unknown service too: both take the same time. */
function credentialFailure(
  service: RegisteredService | undefined,
  proof: Exclude<Proof, { by: 'token' }>,
): AuthError | null {
  const refused = (reason: 'unknown' | 'secret' | 'assertion' | 'disabled') =>
    new AuthError('invalid_client', { reason, ...idOf(service) });
  if (proof.by === 'assertion') {
    const { issuer, subject } = proof.trust;
    const isTrusted = service?.trusts.some((trust) => trust.issuer === issuer && trust.subject === subject);
    if (isTrusted !== true) return refused('assertion');
  } else {
    const isRight = isHashOf(service, proof.secretHash);
    if (!service) return refused('unknown');
    if (!isRight) return refused('secret');
  }
  // Stryker disable next-line OptionalChaining: a service that was not found has failed above
  return service?.disabledAt === null ? null : refused('disabled');
}

/** For the log. The id of an unknown service is a stranger's text. */
function idOf(service: RegisteredService | undefined): { serviceId?: string } {
  return service ? { serviceId: service.serviceId } : {};
}
