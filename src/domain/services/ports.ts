import type { Right } from '../rights.ts';
import type { ServiceTrust, PublicJwks } from './assertion.ts';
import type { RegisteredService } from './registered-service.ts';

/** The registered services on record. Every method fails with AuthError('unavailable') when the database is away. */
export interface ServiceStore {
  /** All services, sorted by name: a handful. */
  list(): Promise<RegisteredService[]>;

  /** @returns false when the name or the audience is taken. */
  add(
    service: Pick<
      RegisteredService,
      'serviceId' | 'name' | 'secretHash' | 'createdAt' | 'rights' | 'audience' | 'roles'
    >,
  ): Promise<boolean>;

  /**
   * Adds the hash of a new secret; the hash in use until now becomes the previous one.
   * @param again if there are two already: replaces the newer one, which may have been lost.
   * @returns the updated service; null if no service has this name.
   * @throws TwoSecretsError
   */
  rotate(
    name: string,
    secretHash: Uint8Array,
    options: { at: number; again: boolean },
  ): Promise<RegisteredService | null>;

  /** Drops the previous hash. @returns as `rotate`. */
  finishRotation(name: string): Promise<RegisteredService | null>;

  /** Replaces all rights. @returns as `rotate`. */
  allow(name: string, rights: readonly Right[]): Promise<RegisteredService | null>;

  /** Replaces all roles. @returns as `rotate`. */
  setRoles(name: string, roles: readonly string[]): Promise<RegisteredService | null>;

  /** Raises the version: every service token that was issued before is refused. @returns as `rotate`. */
  endTokens(name: string): Promise<RegisteredService | null>;

  /** Raises the version too, unless it was disabled already. @returns as `rotate`. */
  disable(name: string, at: number): Promise<RegisteredService | null>;

  /** @returns as `rotate`. */
  enable(name: string): Promise<RegisteredService | null>;

  /**
   * Lets the subject of an issuer authenticate as this service, if it does not yet.
   * @param jwks the issuer's keys, for every service that trusts it; null leaves them as they are.
   * @returns as `rotate`. @throws TrustRefusedError
   */
  trust(name: string, trust: ServiceTrust, jwks: PublicJwks | null): Promise<RegisteredService | null>;

  /** The keys of an issuer that no service trusts any more are dropped. @returns as `rotate`. */
  untrust(name: string, trust: ServiceTrust): Promise<RegisteredService | null>;

  /** Every issuer that a service trusts, with the keys that an operator gave; null if there are none. */
  issuers(): Promise<ReadonlyMap<string, PublicJwks | null>>;

  /** @returns false if no service has this name. */
  remove(name: string): Promise<boolean>;
}
