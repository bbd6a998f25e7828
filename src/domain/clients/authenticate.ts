import { AuthError } from '../errors.ts';
import type { ClientDirectory } from './directory.ts';
import type { ClientRefusal } from '../refusal-reasons.ts';
import type { Right } from '../rights.ts';
import { hashSecret, isHashOf } from './secret.ts';
import type { ServiceIdentity } from './service-client.ts';

/** Authenticates registered services, and checks what they may do. */
export interface ServiceClients {
  /**
   * Admits a service that has this right.
   * @throws AuthError `invalid_client`, `right_missing`, `unavailable`
   */
  authenticate(clientId: string, secret: string, right: Right): Promise<ServiceIdentity>;
  /**
   * Whether the service may go on, in memory: for requests and connections that outlive their authentication.
   * @returns null if it may, otherwise why not.
   */
  refusalOf(identity: ServiceIdentity, right: Right): Refusal | null;
  /** Whether a registered service has this audience. @throws AuthError `unavailable` */
  hasAudience(audience: string): Promise<boolean>;
}

type Refusal = ClientRefusal | 'right_missing';

/**
 * Answers from memory. If a secret or an audience is unknown, or the service lacks the right, the directory is loaded
 * again first: the client, its secret or its right may be new. If the database is down, the answer is therefore
 * `unavailable`, not a refusal.
 */
export function makeServiceClients(
  directory: Pick<ClientDirectory, 'find' | 'hasAudience' | 'refresh'>,
): ServiceClients {
  function check(clientId: string, secretHash: Uint8Array, right: Right): ServiceIdentity | Refusal {
    const client = directory.find(clientId);
    const isRight = isHashOf(client, secretHash);
    if (!client) return 'unknown';
    if (!isRight) return 'secret';
    const { name, audience } = client;
    return client.rights.includes(right) ? { clientId, name, secretHash, audience } : 'right_missing';
  }

  return {
    async authenticate(clientId, secret, right) {
      const secretHash = hashSecret(secret);
      const known = check(clientId, secretHash, right);
      if (typeof known === 'object') return known;
      await directory.refresh();
      const found = check(clientId, secretHash, right);
      if (typeof found === 'string') throw refusalError(found, right);
      return found;
    },
    refusalOf({ clientId, secretHash }, right) {
      const found = check(clientId, secretHash, right);
      return typeof found === 'string' ? found : null;
    },
    async hasAudience(audience) {
      if (directory.hasAudience(audience)) return true;
      await directory.refresh();
      return directory.hasAudience(audience);
    },
  };
}

/** The error of a refusal. */
export function refusalError(refusal: Refusal, right: Right): AuthError {
  return refusal === 'right_missing'
    ? new AuthError(refusal, { right })
    : new AuthError('invalid_client', { reason: refusal });
}
