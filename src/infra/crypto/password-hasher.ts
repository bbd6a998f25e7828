import { randomBytes, timingSafeEqual } from 'node:crypto';
import { normalisePassword } from '../../domain/passwords/policy.ts';
import type { HashCost, PasswordHasher } from '../../domain/passwords/ports.ts';
import { deriveKey } from './derive-key.ts';
import {
  costOfForeign,
  limitProblem,
  mostPhpassBlocks,
  opensForOthers,
  parseForeignHash,
  type Argon2,
  type Digest,
  type ForeignHash,
  type Recipe,
} from './foreign-hash.ts';
import { trimmed } from './hashed-texts.ts';
import { hashMemory, isOwnHash, makeScryptHasher, type ScryptCost } from './scrypt-hasher.ts';

/** Bytes: one block of each digest. PBKDF2 does all its iterations again for each further block. */
export const IMITATED_LENGTH = 16;

/**
 * Makes hashes with scrypt, and also verifies those of other systems: text in the place of scrypt-kdf's bytes.
 * @param maxMemory of one foreign hash, in bytes.
 */
export function makePasswordHasher(cost: ScryptCost, maxMemory = hashMemory(cost)): PasswordHasher {
  const own = makeScryptHasher(cost);

  function costOf(stored: Uint8Array): HashCost | null {
    if (isOwnHash(stored)) return own.costOf(stored);
    const foreign = readForeign(stored);
    return foreign && limitProblem(foreign, maxMemory) === null ? costOfForeign(foreign) : null;
  }

  return {
    cost: own.cost,
    hash: own.hash,

    async verify(stored, password, earlier = 0) {
      if (isOwnHash(stored)) return own.verify(stored, normalisePassword(password));
      const foreign = readForeign(stored);
      const problem = foreign ? limitProblem(foreign, maxMemory) : 'has no known format';
      if (!foreign || problem) throw new Error(`a stored password hash ${problem}`);
      // A thread takes no function.
      const { texts, ...hash } = foreign;
      const all = texts(password);
      const text = all[earlier % all.length] ?? password;
      const key = await deriveKey(hash, text, hash.key.length, mostPhpassBlocks(password));
      return timingSafeEqual(key, hash.key);
    },

    costOf,
    toImitate,

    async imitate(wanted, password) {
      const recipe = recipeOf(wanted);
      if (recipe) await deriveKey(recipe, password, IMITATED_LENGTH, mostPhpassBlocks(password));
      else await own.imitate(wanted, password);
    },

    isOutdated(stored, password) {
      if (isOwnHash(stored)) return own.isOutdated(stored);
      const foreign = readForeign(stored);
      return foreign === null || !isSharedBy(foreign, password);
    },
  };
}

/** Whether another password that the owner may use opens the hash too, and one of ours would refuse it. */
function isSharedBy(foreign: ForeignHash, password: string): boolean {
  const texts = foreign.texts(password);
  if (texts.some((text) => opensForOthers(foreign, Buffer.from(text)))) return true;
  // The space around the password is lost where the system trims, so its owner may leave it out next time.
  const bare = trimmed(password);
  return bare !== password && foreign.texts(bare).some((text) => texts.includes(text));
}

function readForeign(stored: Uint8Array): ForeignHash | null {
  return isOwnHash(stored) ? null : parseForeignHash(Buffer.from(stored).toString());
}

const PBKDF2 = /^pbkdf2-(\w+) (\d+)$/;

/**
 * One of each cost. PBKDF2's time grows evenly with its iterations, so the largest of a digest stands for the others:
 * a system that raised them each year has many.
 */
function toImitate(all: readonly HashCost[], done: HashCost | null): HashCost[] {
  const left = all.filter((cost) => cost !== done && !PBKDF2.test(cost));
  const largest = new Map<string, number>();
  for (const cost of all) {
    const [, digest, work] = PBKDF2.exec(cost) ?? [];
    if (digest !== undefined) largest.set(digest, Math.max(largest.get(digest) ?? 0, Number(work)));
  }
  const [, doneDigest, doneWork] = PBKDF2.exec(done ?? '') ?? [];
  for (const [digest, work] of largest) {
    const rest = digest === doneDigest ? work - Number(doneWork) : work;
    if (rest > 0) left.push(`pbkdf2-${digest} ${rest}`);
  }
  return left;
}

/** A recipe of this cost with a random salt; null for a cost of scrypt. */
function recipeOf(cost: HashCost): Recipe | null {
  const [, name = '', parameters = ''] = /^(\S+) (\S+)$/.exec(cost) ?? [];
  const [first = 0, second = 0, third = 0] = parameters.split('/').map(Number);
  const salt = randomBytes(16);
  if (name === 'bcrypt') return { kind: 'bcrypt', input: 'password', rounds: first, salt };
  if (name === 'phpass') return { kind: 'phpass', rounds: first, salt };
  if (name.startsWith('salted-')) return { kind: 'salted', digest: name.slice(7) as Digest, salt };
  if (name.startsWith('argon2'))
    return {
      kind: 'argon2',
      variant: name as Argon2,
      memory: first,
      passes: second,
      lanes: third,
      salt,
    };
  const [, digest] = PBKDF2.exec(cost) ?? [];
  // One block of a key, whose cost is its iterations.
  return digest === undefined ? null : { kind: 'pbkdf2', digest: digest as Digest, iterations: first, salt };
}
