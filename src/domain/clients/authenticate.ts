import { AuthError } from '../errors.ts';
import type { ClientDirectory } from './directory.ts';
import { hashSecret, isHashOf } from './secret.ts';
import type { ServiceIdentity } from './service-client.ts';

/** The registered services, as those who serve them see them. */
export interface ServiceClients {
  /** @throws AuthError `invalid_client`, `unavailable` */
  authenticate(clientId: string, secret: string): Promise<ServiceIdentity>;
  /** Whether its secret is still good: for connections that outlive their authentication. */
  isStillGood(identity: ServiceIdentity): boolean;
}

/**
 * Knows a service by its secret, from memory. Only who cannot be known is looked up again: it may have been created, or
 * have got its secret, a moment ago. So nobody is refused before the record has been asked, and where that is away the
 * answer is `unavailable`.
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
