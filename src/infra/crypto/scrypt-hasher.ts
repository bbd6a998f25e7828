import { createHash, randomBytes } from 'node:crypto';
import * as scryptKdf from 'scrypt-kdf';
import type { HashCost, PasswordHasher } from '../../domain/passwords/ports.ts';

// The package's types declare named exports, but it has only a default export.
const Scrypt = (scryptKdf as unknown as { default: typeof scryptKdf }).default;

/** The cost of a hash: N = 2^logN blocks of 128·r bytes, p times. */
export interface ScryptCost {
  logN: number;
  r: number;
  p: number;
}

/** Memory of one hash, in bytes. */
export function hashMemory({ logN, r }: Pick<ScryptCost, 'logN' | 'r'>): number {
  return 128 * 2 ** logN * r;
}

/**
 * The limits for a stored hash: 1 GiB of memory, and sixteen passes. Its parameters come from the database, and an
 * attacker who can write there must not be able to stop the service.
 */
const MAX_MEMORY = 1024 ** 3;
const MAX_P = 16;

const LENGTH = 96;

/** Passwords hashed with scrypt-kdf: 96 bytes with parameters, salt, checksum and MAC. */
export function makeScryptHasher(cost: ScryptCost): PasswordHasher {
  const today = textOf(cost);
  return {
    cost: today,
    hash: (password) => Scrypt.kdf(password, cost),

    async verify(hash, password) {
      if (costOf(hash) === null) throw new Error('the cost of a stored password hash is above the limit');
      return Scrypt.verify(hash, password);
    },

    costOf,

    async imitate(wanted, password) {
      await Scrypt.verify(hashThatNothingOpens(wanted), password);
    },

    isOutdated: (hash) => costOf(hash) !== today,
  };
}

function costOf(hash: Uint8Array): HashCost | null {
  if (hash.length !== LENGTH) return null;
  const stored = Scrypt.viewParams(hash);
  const { logN, r, p } = stored;
  if (logN < 1 || r < 1 || p < 1 || p > MAX_P || hashMemory(stored) > MAX_MEMORY) return null;
  return textOf(stored);
}

function textOf({ logN, r, p }: ScryptCost): HashCost {
  return `scrypt ${logN}/${r}/${p}`;
}

/** A hash in scrypt-kdf's layout with random salt and MAC. Without a correct checksum, `verify` computes nothing. */
function hashThatNothingOpens(cost: HashCost): Uint8Array {
  const [logN = 0, r = 0, p = 0] = (/^scrypt (.*)$/.exec(cost)?.[1] ?? '').split('/').map(Number);
  const hash = Buffer.concat([Buffer.from('scrypt'), randomBytes(LENGTH - 6)]);
  hash.writeUInt8(0, 6);
  hash.writeUInt8(logN, 7);
  hash.writeUInt32BE(r, 8);
  hash.writeUInt32BE(p, 12);
  createHash('sha256').update(hash.subarray(0, 48)).digest().copy(hash, 48, 0, 16);
  return hash;
}
