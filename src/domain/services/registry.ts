import type { Clock } from '../clock.ts';
import type { ServiceTrust, PublicJwks } from './assertion.ts';
import type { ServiceStore } from './ports.ts';
import { DEFAULT_RIGHTS, type Right } from '../rights.ts';
import { hashSecret, newServiceId, newSecret, type RandomBytes } from './secret.ts';

interface RegistryPorts {
  store: ServiceStore;
  randomBytes: RandomBytes;
  clock: Pick<Clock, 'now'>;
}

/** A service's new credentials: the secret is shown only this once. */
export interface Credentials {
  serviceId: string;
  secret: string;
}

/** Manages registered services. Names are in the form of `parseServiceName`. @throws AuthError `unavailable` */
export function makeServiceRegistry({ store, randomBytes, clock }: RegistryPorts) {
  return {
    /**
     * @param audience one that `isAudience` accepts, or null for none. @param roles those that `parseRoles` accepts.
     * @returns null when the name or the audience is taken.
     */
    async create(
      name: string,
      rights: readonly Right[] = DEFAULT_RIGHTS,
      audience: string | null = null,
      roles: readonly string[] = [],
    ): Promise<Credentials | null> {
      const [serviceId, secret] = [newServiceId(randomBytes), newSecret(randomBytes)];
      const isNew = await store.add({
        serviceId,
        name,
        secretHash: hashSecret(secret),
        createdAt: clock.now(),
        rights,
        audience,
        roles,
      });
      return isNew ? { serviceId, secret } : null;
    },

    /**
     * Adds a secret to the one in use; both are good.
     * @param again replaces the newer of two secrets: it was lost before its first use.
     * @returns null if there is no such service. @throws TwoSecretsError if there are two already.
     */
    async rotate(name: string, again = false): Promise<Credentials | null> {
      const secret = newSecret(randomBytes);
      const service = await store.rotate(name, hashSecret(secret), { at: clock.now(), again });
      return service && { serviceId: service.serviceId, secret };
    },

    /** From now on only the newest secret is good. @returns null if there is no such service. */
    finishRotation: (name: string) => store.finishRotation(name),

    /** From now on the service has these rights only. @returns null if there is no such service. */
    allow: (name: string, rights: readonly Right[]) => store.allow(name, rights),

    /** New service tokens of the service have these roles. @returns null if there is no such service. */
    setRoles: (name: string, roles: readonly string[]) => store.setRoles(name, roles),

    /** Its service tokens end now. @returns null if there is no such service. */
    endTokens: (name: string) => store.endTokens(name),

    /** It is refused everywhere, and its service tokens end. @returns null if there is no such service. */
    disable: (name: string) => store.disable(name, clock.now()),

    /** @returns null if there is no such service. */
    enable: (name: string) => store.enable(name),

    /** See `ServiceStore`. @throws TrustRefusedError */
    trust: (name: string, trust: ServiceTrust, jwks: PublicJwks | null) => store.trust(name, trust, jwks),
    untrust: (name: string, trust: ServiceTrust) => store.untrust(name, trust),

    remove: (name: string) => store.remove(name),
    list: () => store.list(),
    issuers: () => store.issuers(),
  };
}

export type ServiceRegistry = ReturnType<typeof makeServiceRegistry>;
