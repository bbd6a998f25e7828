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

/** Whether scrypt takes these parameters (RFC 7914, section 2). For others OpenSSL throws an error. */
export function isScryptCost({ logN, r, p }: ScryptCost): boolean {
  return logN >= 1 && r >= 1 && p >= 1 && logN < 16 * r && p * r < 2 ** 30;
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

type ScryptHasher = Omit<PasswordHasher, 'toImitate' | 'isOutdated'> & {
  /** Whether the hash was made with other parameters than today's. */
  isOutdated(hash: Uint8Array): boolean;
};

/** Passwords hashed with scrypt-kdf: 96 bytes with parameters, salt, checksum and MAC. */
export function makeScryptHasher(cost: ScryptCost): ScryptHasher {
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
      await Scrypt.verify(hashThatNothingOpens(costFrom(wanted)), password);
    },

    isOutdated: (hash) => costOf(hash) !== today,
  };
}

function costOf(hash: Uint8Array): HashCost | null {
  if (hash.length !== LENGTH) return null;
  const stored = scryptCostOf(hash);
  const { r, p } = stored;
  if (!isScryptCost(stored) || p > MAX_P || Math.max(hashMemory(stored), 128 * r * p) > MAX_MEMORY)
    return null;
  return textOf(stored);
}

/** The parameters in a hash of this layout, possible or not. */
export function scryptCostOf(hash: Uint8Array): ScryptCost {
  const { logN, r, p } = Scrypt.viewParams(hash);
  return { logN, r, p };
}

function textOf({ logN, r, p }: ScryptCost): HashCost {
  return `scrypt ${logN}/${r}/${p}`;
}

function costFrom(cost: HashCost): ScryptCost {
  const [logN = 0, r = 0, p = 0] = (/^scrypt (.*)$/.exec(cost)?.[1] ?? '').split('/').map(Number);
  return { logN, r, p };
}

/** Whether these bytes are in scrypt-kdf's layout, version 0. */
export function isOwnHash(stored: Uint8Array): boolean {
  return stored.length === LENGTH && Buffer.from(stored.subarray(0, 7)).toString('latin1') === 'scrypt\0';
}

/** Whether header and salt of a hash in this layout are as they were written. */
export function isIntactHash(stored: Uint8Array): boolean {
  return checksumOf(stored).equals(stored.subarray(48, 64));
}

/**
 * A hash in scrypt-kdf's layout with a random MAC, which takes the work of a real one.
 * @param salt 32 bytes.
 */
export function hashThatNothingOpens({ logN, r, p }: ScryptCost, salt = randomBytes(32)): Buffer {
  const hash = Buffer.concat([Buffer.from('scrypt'), randomBytes(LENGTH - 6)]);
  hash.writeUInt8(0, 6);
  hash.writeUInt8(logN, 7);
  hash.writeUInt32BE(r, 8);
  hash.writeUInt32BE(p, 12);
  salt.copy(hash, 16, 0, 32);
  // Without a correct checksum, `verify` computes nothing.
  checksumOf(hash).copy(hash, 48);
  return hash;
}

function checksumOf(hash: Uint8Array): Buffer {
  return createHash('sha256').update(hash.subarray(0, 48)).digest().subarray(0, 16);
}
