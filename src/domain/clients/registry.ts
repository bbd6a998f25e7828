import type { Clock } from '../clock.ts';
import type { ClientTrust, PublicJwks } from './assertion.ts';
import type { ClientStore } from './ports.ts';
import { DEFAULT_RIGHTS, type Right } from '../rights.ts';
import { hashSecret, newClientId, newSecret, type RandomBytes } from './secret.ts';

interface RegistryPorts {
  store: ClientStore;
  randomBytes: RandomBytes;
  clock: Pick<Clock, 'now'>;
}

/** A client's new credentials: the secret is shown only this once. */
export interface Credentials {
  clientId: string;
  secret: string;
}

/** Manages registered services. Names are in the form of `parseClientName`. @throws AuthError `unavailable` */
export function makeClientRegistry({ store, randomBytes, clock }: RegistryPorts) {
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
      const [clientId, secret] = [newClientId(randomBytes), newSecret(randomBytes)];
      const isNew = await store.add({
        clientId,
        name,
        secretHash: hashSecret(secret),
        createdAt: clock.now(),
        rights,
        audience,
        roles,
      });
      return isNew ? { clientId, secret } : null;
    },

    /**
     * Adds a secret to the one in use; both are good.
     * @param again replaces the newer of two secrets: it was lost before its first use.
     * @returns null if there is no such client. @throws TwoSecretsError if there are two already.
     */
    async rotate(name: string, again = false): Promise<Credentials | null> {
      const secret = newSecret(randomBytes);
      const client = await store.rotate(name, hashSecret(secret), { at: clock.now(), again });
      return client && { clientId: client.clientId, secret };
    },

    /** From now on only the newest secret is good. @returns null if there is no such client. */
    finishRotation: (name: string) => store.finishRotation(name),

    /** From now on the client has these rights only. @returns null if there is no such client. */
    allow: (name: string, rights: readonly Right[]) => store.allow(name, rights),

    /** New service tokens of the client have these roles. @returns null if there is no such client. */
    setRoles: (name: string, roles: readonly string[]) => store.setRoles(name, roles),

    /** Its service tokens end now. @returns null if there is no such client. */
    endTokens: (name: string) => store.endTokens(name),

    /** It is refused everywhere, and its service tokens end. @returns null if there is no such client. */
    disable: (name: string) => store.disable(name, clock.now()),

    /** @returns null if there is no such client. */
    enable: (name: string) => store.enable(name),

    /** See `ClientStore`. @throws TrustRefusedError */
    trust: (name: string, trust: ClientTrust, jwks: PublicJwks | null) => store.trust(name, trust, jwks),
    untrust: (name: string, trust: ClientTrust) => store.untrust(name, trust),

    remove: (name: string) => store.remove(name),
    list: () => store.list(),
    issuers: () => store.issuers(),
  };
}

export type ClientRegistry = ReturnType<typeof makeClientRegistry>;
