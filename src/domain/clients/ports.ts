import type { Right } from '../rights.ts';
import type { ServiceClient } from './service-client.ts';

/** The registered services on record. Every method fails with AuthError('unavailable') when the database is away. */
export interface ClientStore {
  /** All clients, sorted by name: a handful. */
  list(): Promise<ServiceClient[]>;

  /** @returns false when the name or the audience is taken. */
  add(
    client: Pick<ServiceClient, 'clientId' | 'name' | 'secretHash' | 'createdAt' | 'rights' | 'audience'>,
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

  /** @returns false if no client has this name. */
  remove(name: string): Promise<boolean>;
}
