import { hasPassed, over, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { ServiceBearer } from '../principal.ts';
import type { AssertionRefusal } from '../refusal-reasons.ts';
import type { Right } from '../rights.ts';
import type { ClientDirectory } from './directory.ts';
import { hashSecret, isHashOf } from './secret.ts';
import type { ClientTrust } from './assertion.ts';
import type { Proof, ServiceClient, ServiceIdentity } from './service-client.ts';

/**
 * Checks what a client presents instead of a secret (RFC 7523).
 * @param clientId the only client that it may open; undefined for any.
 * @returns the client that it opens, or the reason for the refusal.
 * @throws AuthError `unavailable`
 */
export type CheckAssertion = (
  assertion: string,
  clientId: string | undefined,
) => Promise<ServiceIdentity | AssertionRefusal>;

/** Authenticates registered services, and checks what they may do. A right that is null is not asked for. */
export interface ServiceClients {
  /** @throws AuthError `invalid_client`, `right_missing`, `unavailable` */
  authenticate(clientId: string, secret: string, right: Right | null): Promise<ServiceIdentity>;
  /**
   * Admits the client of a workload that its issuer has vouched for.
   * @throws AuthError `invalid_client`, `right_missing`, `unavailable`
   */
  authenticateWorkload(trust: ClientTrust, right: Right | null): Promise<ServiceIdentity>;
  /**
   * Admits the client of a service token whose signature, issuer, audience and expiry are verified.
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
  /** The client as it is now. undefined if it is not registered. */
  find(clientId: string): ServiceClient | undefined;
  /** Whether a registered service has this audience. @throws AuthError `unavailable` */
  hasAudience(audience: string): Promise<boolean>;
}

/**
 * Answers from memory. If a secret, a workload, a version or an audience is unknown, or the service lacks the right, the
 * directory is loaded again first: the client, its secret or its right may be new. If the database is down, the answer
 * is therefore `unavailable`, not a refusal.
 */
export function makeServiceClients(
  directory: Pick<ClientDirectory, 'find' | 'findTrusting' | 'hasAudience' | 'refresh'>,
  clock: Pick<Clock, 'now' | 'isTrusted'>,
): ServiceClients {
  const refusalOf: ServiceClients['refusalOf'] = ({ clientId, proof }, right) =>
    refusal(directory.find(clientId), proof, right);

  function refusal(client: ServiceClient | undefined, proof: Proof, right: Right | null): AuthError | null {
    const failure =
      proof.by === 'token' ? tokenFailure(client, proof.token) : credentialFailure(client, proof);
    if (failure) return failure;
    // Stryker disable next-line OptionalChaining: a client that was not found has failed above
    const isMissing = right !== null && client?.rights.includes(right) !== true;
    return isMissing ? new AuthError('right_missing', { right, ...idOf(client) }) : null;
  }

  function tokenFailure(
    client: ServiceClient | undefined,
    { version, expiresAt }: ServiceBearer,
  ): AuthError | null {
    const refused = (reason: 'gone' | 'disabled' | 'revoked') =>
      new AuthError('invalid_token', { reason, ...idOf(client) });
    if (!client) return refused('gone');
    if (client.disabledAt !== null) return refused('disabled');
    if (client.version !== version) return refused('revoked');
    return hasPassed(expiresAt, clock.now()) ? over(clock, 'invalid_token') : null;
  }

  async function admit(
    find: () => ServiceClient | undefined,
    proof: Proof,
    right: Right | null,
  ): Promise<ServiceIdentity> {
    let client = find();
    let failure = refusal(client, proof, right);
    // Loading cannot help an older version: versions only rise.
    const isOlder = proof.by === 'token' && client !== undefined && proof.token.version < client.version;
    if (failure && !isOlder) {
      await directory.refresh();
      client = find();
      failure = refusal(client, proof, right);
    }
    if (failure) throw failure;
    // Stryker disable next-line all: a client that was not found has failed above
    if (!client) throw new AuthError('internal_error');
    const { clientId, name, audience } = client;
    return { clientId, name, audience, proof };
  }

  return {
    authenticate: (clientId, secret, right) =>
      admit(() => directory.find(clientId), { by: 'secret', secretHash: hashSecret(secret) }, right),
    authenticateWorkload: (trust, right) =>
      admit(() => directory.findTrusting(trust), { by: 'assertion', trust }, right),
    authenticateToken: (token, right) =>
      admit(() => directory.find(token.clientId), { by: 'token', token }, right),
    admitAgain: ({ clientId, proof }, right) => admit(() => directory.find(clientId), proof, right),
    refusalOf,
    find: (clientId) => directory.find(clientId),
    async hasAudience(audience) {
      if (directory.hasAudience(audience)) return true;
      await directory.refresh();
      return directory.hasAudience(audience);
    },
  };
}

/** The hash is compared for an unknown client too: both take the same time. */
function credentialFailure(
  client: ServiceClient | undefined,
  proof: Exclude<Proof, { by: 'token' }>,
): AuthError | null {
  const refused = (reason: 'unknown' | 'secret' | 'assertion' | 'disabled') =>
    new AuthError('invalid_client', { reason, ...idOf(client) });
  if (proof.by === 'assertion') {
    const { issuer, subject } = proof.trust;
    const isTrusted = client?.trusts.some((trust) => trust.issuer === issuer && trust.subject === subject);
    if (isTrusted !== true) return refused('assertion');
  } else {
    const isRight = isHashOf(client, proof.secretHash);
    if (!client) return refused('unknown');
    if (!isRight) return refused('secret');
  }
  // Stryker disable next-line OptionalChaining: a client that was not found has failed above
  return client?.disabledAt === null ? null : refused('disabled');
}

/** For the log. The id of an unknown client is a stranger's text. */
function idOf(client: ServiceClient | undefined): { clientId?: string } {
  return client ? { clientId: client.clientId } : {};
}
