import type { ServiceStore } from '../../src/domain/services/ports.ts';
import type { ServiceTrust, PublicJwks } from '../../src/domain/services/assertion.ts';
import {
  MAX_TRUSTS,
  TrustRefusedError,
  TwoSecretsError,
  type RegisteredService,
} from '../../src/domain/services/registered-service.ts';

/** A service that the record holds, with what does not matter filled in. */
export function aServiceRecord(known: Partial<RegisteredService>): RegisteredService {
  return {
    serviceId: 'lkc_shop',
    name: 'shop',
    secretHash: new Uint8Array(32),
    previousHash: null,
    createdAt: 1,
    rotatedAt: null,
    rights: [],
    audience: null,
    roles: [],
    version: 1,
    disabledAt: null,
    trusts: [],
    ...known,
  };
}

/** Registered services in a map. Passes the same contract as the PostgreSQL store (test/contract/service-store.ts). */
export function makeMemoryServiceStore(): ServiceStore {
  const clients = new Map<string, RegisteredService>();
  const change = (name: string, to: (client: RegisteredService) => RegisteredService) => {
    const client = clients.get(name);
    if (!client) return Promise.resolve(null);
    const changed = to(client);
    clients.set(name, changed);
    return Promise.resolve(changed);
  };
  const keys = new Map<string, PublicJwks>();
  const issuers = () =>
    new Map(
      [...clients.values()]
        .flatMap(({ trusts }) => trusts)
        .map(({ issuer }): [string, PublicJwks | null] => [issuer, keys.get(issuer) ?? null]),
    );
  const dropUntrusted = () => {
    for (const issuer of keys.keys()) if (!issuers().has(issuer)) keys.delete(issuer);
  };
  return {
    list: () => Promise.resolve([...clients.values()].sort((a, b) => (a.name < b.name ? -1 : 1))),
    add(client) {
      const { name, audience } = client;
      const isTaken = [...clients.values()].some((other) => audience !== null && other.audience === audience);
      if (clients.has(name) || isTaken) return Promise.resolve(false);
      clients.set(client.name, aServiceRecord(client));
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
    setRoles: (name, roles) => change(name, (client) => ({ ...client, roles })),
    endTokens: (name) => change(name, (client) => ({ ...client, version: client.version + 1 })),
    disable: (name, at) =>
      change(name, (client) =>
        client.disabledAt === null ? { ...client, disabledAt: at, version: client.version + 1 } : client,
      ),
    enable: (name) => change(name, (client) => ({ ...client, disabledAt: null })),
    trust: async (name, trust, jwks) => {
      const isSame = (other: ServiceTrust) =>
        other.issuer === trust.issuer && other.subject === trust.subject;
      const owner = [...clients.values()].find(({ trusts }) => trusts.some(isSame));
      const client = clients.get(name);
      if (!client) return null;
      const others = client.trusts.filter((each) => !isSame(each));
      if (others.length >= MAX_TRUSTS) throw new TrustRefusedError('full');
      if (owner && owner !== client) throw new TrustRefusedError('taken');
      if (jwks) keys.set(trust.issuer, jwks);
      return change(name, () => ({ ...client, trusts: [...others, trust] }));
    },
    untrust: async (name, { issuer, subject }) => {
      const kept = (each: ServiceTrust) => each.issuer !== issuer || each.subject !== subject;
      const client = await change(name, (known) => ({ ...known, trusts: known.trusts.filter(kept) }));
      dropUntrusted();
      return client;
    },
    issuers: () => Promise.resolve(issuers()),
    remove: (name) => {
      const isRemoved = clients.delete(name);
      dropUntrusted();
      return Promise.resolve(isRemoved);
    },
  };
}
