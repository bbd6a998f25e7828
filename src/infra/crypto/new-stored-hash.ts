import { createHash } from 'node:crypto';
import type { NewHash } from '../../domain/users/account-fields.ts';
import type { ReadField } from '../../domain/users/import-line.ts';
import { costOfForeign, limitProblem, parseForeignHash } from './foreign-hash.ts';
import { nearestProblem } from './nearest-hash.ts';
import { translateHash } from './translate-hash.ts';
import {
  hashThatNothingOpens,
  isIntactHash,
  isOwnHash,
  scryptCostOf,
  type ScryptCost,
} from './scrypt-hasher.ts';

/** What the limits do not look at. */
const NONE = new Uint8Array();

const OWN = /^\$scrypt-kdf\$([A-Za-z0-9+/]{128})$/;

/** A hash as `latchkey user export` writes it. */
export function hashAsText(stored: Uint8Array): string {
  const bytes = Buffer.from(stored);
  return isOwnHash(stored) ? `$scrypt-kdf$${bytes.toString('base64')}` : bytes.toString();
}

/**
 * Reads the `password_hash` of a line to import: text, Keycloak's object, or null for no password.
 * @param cost of the hashes that take an imported one's place.
 * @param maxMemory of one login with it, in bytes.
 */
export function makeReadHash(cost: ScryptCost, maxMemory: number): (value: unknown) => ReadField<NewHash> {
  function readOwn(base64: string): ReadField<NewHash> {
    const hash = Buffer.from(base64, 'base64');
    if (!isOwnHash(hash) || !isIntactHash(hash)) return bad('is damaged');
    const problem = limitProblem({ kind: 'scrypt', ...scryptCostOf(hash), salt: NONE, key: NONE }, maxMemory);
    return problem === null ? good({ passwordHash: hash }) : bad(problem);
  }

  return function readHash(value: unknown): ReadField<NewHash> {
    if (value === undefined) return bad('is required');
    // Django writes an exclamation mark and random text for a user without a password.
    if (value === null || (typeof value === 'string' && value.startsWith('!')))
      return good({ passwordHash: hashThatNothingOpens(cost) });
    const [, base64] = typeof value === 'string' ? (OWN.exec(value) ?? []) : [];
    if (base64 !== undefined) return readOwn(base64);
    const hash = translateHash(value);
    const foreign = hash === null ? null : parseForeignHash(hash);
    if (hash === null || !foreign)
      return bad(
        typeof value === 'object'
          ? 'is not a PBKDF2 or argon2 password of Keycloak'
          : nearestProblem(typeof value === 'string' ? value : ''),
      );
    const problem = limitProblem(foreign, maxMemory);
    if (problem) return bad(problem);
    return good({
      passwordHash: placeholderFor(hash, cost),
      imported: { hash, cost: costOfForeign(foreign) },
    });
  };
}

/**
 * Stands in the place of our own hash, and nothing opens it. Its salt names the imported hash
 * (infra/postgres/stored-hash.ts).
 */
function placeholderFor(imported: string, cost: ScryptCost): Buffer {
  return hashThatNothingOpens(cost, createHash('sha256').update(imported).digest());
}

function good(value: NewHash): ReadField<NewHash> {
  return { ok: true, value };
}

function bad(message: string): ReadField<NewHash> {
  return { ok: false, message };
}
