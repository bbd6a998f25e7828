import type { Right } from '../rights.ts';
import type { ClientTrust, PublicJwks } from './assertion.ts';
import type { ServiceClient } from './service-client.ts';

/** The registered services on record. Every method fails with AuthError('unavailable') when the database is away. */
export interface ClientStore {
  /** All clients, sorted by name: a handful. */
  list(): Promise<ServiceClient[]>;

  /** @returns false when the name or the audience is taken. */
  add(
    client: Pick<
      ServiceClient,
      'clientId' | 'name' | 'secretHash' | 'createdAt' | 'rights' | 'audience' | 'roles'
    >,
  ): Promise<boolean>;

  /**
   * Adds the hash of a new secret; the hash in use until now becomes the previous one.
   * @param again if there are two already: replaces the newer one, which may have been lost.
   * @returns the updated client; null if no client has this name.
   * @throws TwoSecretsError
   */
  rotate(
    name: string,
    secretHash: Uint8Array,
    options: { at: number; again: boolean },
  ): Promise<ServiceClient | null>;

  /** Drops the previous hash. @returns as `rotate`. */
  finishRotation(name: string): Promise<ServiceClient | null>;

  /** Replaces all rights. @returns as `rotate`. */
  allow(name: string, rights: readonly Right[]): Promise<ServiceClient | null>;

  /** Replaces all roles. @returns as `rotate`. */
  setRoles(name: string, roles: readonly string[]): Promise<ServiceClient | null>;

  /** Raises the version: every service token that was issued before is refused. @returns as `rotate`. */
  endTokens(name: string): Promise<ServiceClient | null>;

  /** Raises the version too, unless it was disabled already. @returns as `rotate`. */
  disable(name: string, at: number): Promise<ServiceClient | null>;

  /** @returns as `rotate`. */
  enable(name: string): Promise<ServiceClient | null>;

  /**
   * Lets the subject of an issuer authenticate as this client, if it does not yet.
   * @param jwks the issuer's keys, for every client that trusts it; null leaves them as they are.
   * @returns as `rotate`. @throws TrustRefusedError
   */
  trust(name: string, trust: ClientTrust, jwks: PublicJwks | null): Promise<ServiceClient | null>;

  /** The keys of an issuer that no client trusts any more are dropped. @returns as `rotate`. */
  untrust(name: string, trust: ClientTrust): Promise<ServiceClient | null>;

  /** Every issuer that a client trusts, with the keys that an operator gave; null if there are none. */
  issuers(): Promise<ReadonlyMap<string, PublicJwks | null>>;

  /** @returns false if no client has this name. */
  remove(name: string): Promise<boolean>;
}
