/** Hashes passwords. Slow by design; always called through the bulkhead. */
export interface PasswordHasher {
  /** @returns the encoded hash with its parameters and salt. */
  hash(password: string): Promise<Uint8Array>;
  /**
   * Compares a password with a stored hash.
   * @throws Error when the stored hash's parameters lie beyond what may be computed.
   */
  verify(hash: Uint8Array, password: string): Promise<boolean>;
  /** Whether the hash was made with other parameters than today's. */
  isOutdated(hash: Uint8Array): boolean;
}
