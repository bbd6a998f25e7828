import * as scryptKdf from 'scrypt-kdf';
import type { PasswordHasher } from '../../domain/passwords/ports.ts';

// The package's types say that it has named exports; what it has is a default one.
const Scrypt = (scryptKdf as unknown as { default: typeof scryptKdf }).default;

/** The cost of a hash: N = 2^logN blocks of 128·r bytes, p times. */
export interface ScryptCost {
  logN: number;
  r: number;
  p: number;
}

/** What one hash takes at once, in bytes. */
export function hashMemory({ logN, r }: Pick<ScryptCost, 'logN' | 'r'>): number {
  return 128 * 2 ** logN * r;
}

/**
 * What a stored hash may ask for. Its parameters come from the database, and nobody who can write there may thereby
 * stop the service: 1 GiB at once, and no more than sixteen passes.
 */
const MAX_MEMORY = 1024 ** 3;
const MAX_P = 16;

/** Passwords hashed with scrypt-kdf: 96 bytes with parameters, salt, checksum and MAC. */
export function makeScryptHasher(cost: ScryptCost): PasswordHasher {
  return {
    hash: (password) => Scrypt.kdf(password, cost),

    async verify(hash, password) {
      const stored = Scrypt.viewParams(hash);
      if (
        stored.logN < 1 ||
        stored.r < 1 ||
        stored.p < 1 ||
        stored.p > MAX_P ||
        hashMemory(stored) > MAX_MEMORY
      ) {
        throw new Error('a stored password hash asks for a cost beyond what is allowed');
      }
      return Scrypt.verify(hash, password);
    },

    isOutdated(hash) {
      const { logN, r, p } = Scrypt.viewParams(hash);
      return logN !== cost.logN || r !== cost.r || p !== cost.p;
    },
  };
}
