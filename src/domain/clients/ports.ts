import type { ServiceClient } from './service-client.ts';

/** The registered services on record. Every method fails with AuthError('unavailable') when the database is away. */
export interface ClientStore {
  /** All of them, by name: a handful. */
  list(): Promise<ServiceClient[]>;

  /** @returns false when the name is taken. */
  add(client: Pick<ServiceClient, 'clientId' | 'name' | 'secretHash' | 'createdAt'>): Promise<boolean>;

  /**
   * Puts a secret's hash in front, beside the one that was alone until then.
   * @param again where there are two already: instead of the newer one, which nobody may have seen.
   * @returns the client as it is then; null when there is none of this name.
   * @throws TwoSecretsError
   */
  rotate(
    name: string,
    secretHash: Uint8Array,
    options: { at: number; again: boolean },
  ): Promise<ServiceClient | null>;

  /** Drops the previous hash. @returns as `rotate`. */
  finishRotation(name: string): Promise<ServiceClient | null>;

  /** @returns false when there is none of this name. */
  remove(name: string): Promise<boolean>;
}
