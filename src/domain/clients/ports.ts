import type { ServiceClient } from './service-client.ts';

/** The registered services on record. Every method fails with AuthError('unavailable') when the database is away. */
export interface ClientStore {
  /** All of them, by name: a handful. */
  list(): Promise<ServiceClient[]>;

  /** @returns false when the name is taken. */
  add(client: Pick<ServiceClient, 'clientId' | 'name' | 'secretHash' | 'createdAt'>): Promise<boolean>;

  /**
   * Puts a secret's hash in front; what was the newest becomes the previous one, and what was that is over.
   * @returns the client as it is then; null when there is none of this name.
   */
  rotate(name: string, secretHash: Uint8Array, at: number): Promise<ServiceClient | null>;

  /** Drops the previous hash. @returns as `rotate`. */
  finishRotation(name: string): Promise<ServiceClient | null>;

  /** @returns false when there is none of this name. */
  remove(name: string): Promise<boolean>;
}
