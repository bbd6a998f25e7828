import { AuthError } from '../errors.ts';
import type { ClientDirectory } from './directory.ts';
import { hashSecret, isHashOf } from './secret.ts';
import type { ServiceIdentity } from './service-client.ts';

/** Authenticates registered services. */
export interface ServiceClients {
  /** @throws AuthError `invalid_client`, `unavailable` */
  authenticate(clientId: string, secret: string): Promise<ServiceIdentity>;
  /** Whether the secret is still good: for connections that outlive their authentication. */
  isStillGood(identity: ServiceIdentity): boolean;
}

/**
 * Authenticates a service by its secret, from memory. If that fails, the directory is loaded again first: the client or
 * its secret may be new. If the database is down, the answer is therefore `unavailable`, not a refusal.
 */
export function makeServiceClients(directory: Pick<ClientDirectory, 'find' | 'refresh'>): ServiceClients {
  function check(clientId: string, secret: string): ServiceIdentity | null {
    const client = directory.find(clientId);
    const secretHash = hashSecret(secret);
    return isHashOf(client, secretHash) && client ? { clientId, name: client.name, secretHash } : null;
  }
  return {
    async authenticate(clientId, secret) {
      const known = check(clientId, secret);
      if (known) return known;
      await directory.refresh();
      const found = check(clientId, secret);
      if (!found) throw new AuthError('invalid_client');
      return found;
    },
    isStillGood: ({ clientId, secretHash }) => isHashOf(directory.find(clientId), secretHash),
  };
}
