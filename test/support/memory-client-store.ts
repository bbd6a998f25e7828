import type { ClientStore } from '../../src/domain/clients/ports.ts';
import { TwoSecretsError, type ServiceClient } from '../../src/domain/clients/service-client.ts';

/** Registered services in a map. Passes the same contract as the PostgreSQL store (test/contract/client-store.ts). */
export function makeMemoryClientStore(): ClientStore {
  const clients = new Map<string, ServiceClient>();
  const change = (name: string, to: (client: ServiceClient) => ServiceClient) => {
    const client = clients.get(name);
    if (!client) return Promise.resolve(null);
    const changed = to(client);
    clients.set(name, changed);
    return Promise.resolve(changed);
  };
  return {
    list: () => Promise.resolve([...clients.values()].sort((a, b) => (a.name < b.name ? -1 : 1))),
    add(client) {
      const { name, audience } = client;
      const isTaken = [...clients.values()].some((other) => audience !== null && other.audience === audience);
      if (clients.has(name) || isTaken) return Promise.resolve(false);
      clients.set(client.name, { ...client, previousHash: null, rotatedAt: null });
      return Promise.resolve(true);
    },
    rotate: async (name, secretHash, { at, again }) => {
      if (!again && clients.get(name)?.previousHash) throw new TwoSecretsError();
      return change(name, (client) => ({
        ...client,
        secretHash,
        previousHash: client.previousHash ?? client.secretHash,
        rotatedAt: at,
      }));
    },
    finishRotation: (name) => change(name, (client) => ({ ...client, previousHash: null })),
    allow: (name, rights) => change(name, (client) => ({ ...client, rights })),
    remove: (name) => Promise.resolve(clients.delete(name)),
  };
}
