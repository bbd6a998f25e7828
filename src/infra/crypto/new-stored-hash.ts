import { createHash } from 'node:crypto';
import type { NewHash, ParsedHash } from '../../domain/users/import-line.ts';
import { costOfForeign, limitProblem, parseForeignHash } from './foreign-hash.ts';
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
 * Reads the `password_hash` of a line to import: text, or Keycloak's object.
 * @param cost of the hashes that take an imported one's place.
 * @param maxMemory of one login with it, in bytes.
 */
export function makeReadHash(cost: ScryptCost, maxMemory: number): (value: unknown) => ParsedHash {
  function readOwn(base64: string): ParsedHash {
    const hash = Buffer.from(base64, 'base64');
    if (!isOwnHash(hash) || !isIntactHash(hash)) return bad('is damaged');
    const problem = limitProblem({ kind: 'scrypt', ...scryptCostOf(hash), salt: NONE, key: NONE }, maxMemory);
    return problem === null ? good({ passwordHash: hash }) : bad(problem);
  }

  return function readHash(value: unknown): ParsedHash {
    if (typeof value === 'object' && value !== null) {
      const text = readKeycloakHash(value);
      return text === null ? bad('is not a PBKDF2 or argon2 password of Keycloak') : readHash(text);
    }
    if (typeof value !== 'string') return bad('is required');
    const [, base64] = OWN.exec(value) ?? [];
    if (base64 !== undefined) return readOwn(base64);
    const foreign = parseForeignHash(value);
    if (!foreign) return bad('has none of the formats that can be imported');
    const problem = limitProblem(foreign, maxMemory);
    if (problem) return bad(problem);
    return good({
      passwordHash: placeholderFor(value, cost),
      imported: { hash: value, cost: costOfForeign(foreign) },
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

function good(value: NewHash): ParsedHash {
  return { ok: true, value };
}

function bad(message: string): ParsedHash {
  return { ok: false, message };
}

/**
 * Keycloak stores a password as two JSON texts, of which an export of a realm makes one object. Its PBKDF2 in passlib's
 * format, and its argon2 in the PHC string format.
 * @param credential `{ credentialData, secretData }`, each as text or as the object in it.
 * @returns null if it is neither.
 */
export function readKeycloakHash(credential: object): string | null {
  const { credentialData, secretData } = credential as Record<string, unknown>;
  const [how, secret] = [objectOf(credentialData), objectOf(secretData)];
  if (!how || !secret) return null;
  const { algorithm, hashIterations, additionalParameters } = how;
  const [salt, key] = [base64Of(secret.salt), base64Of(secret.value)];
  if (salt === null || key === null || !Number.isSafeInteger(hashIterations)) return null;
  const iterations = Number(hashIterations);
  if (algorithm === 'argon2') return readArgon2(objectOf(additionalParameters), iterations, salt, key);
  if (typeof algorithm !== 'string' || !/^pbkdf2(-sha256|-sha512)?$/.test(algorithm)) return null;
  return `$${algorithm}$${iterations}$${dotted(salt)}$${dotted(key)}`;
}

function readArgon2(
  parameters: Record<string, unknown> | null,
  passes: number,
  salt: string,
  key: string,
): string | null {
  // Each parameter is a list of one text.
  const { type, version, memory, parallelism } = Object.fromEntries(
    Object.entries(parameters ?? {}).map(([name, value]) => [name, Array.isArray(value) ? value[0] : value]),
  ) as Record<string, unknown>;
  if (version !== '1.3') return null;
  return `$argon2${String(type)}$v=19$m=${String(memory)},t=${passes},p=${String(parallelism)}$${salt}$${key}`;
}

function objectOf(value: unknown): Record<string, unknown> | null {
  if (typeof value !== 'string') return isObject(value) ? value : null;
  try {
    const parsed: unknown = JSON.parse(value);
    return isObject(parsed) ? parsed : null;
  } catch {
    return null;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** @returns base64 without padding. */
function base64Of(value: unknown): string | null {
  if (typeof value !== 'string' || !/^[A-Za-z0-9+/]+={0,2}$/.test(value)) return null;
  return value.replace(/=+$/, '');
}

function dotted(base64: string): string {
  return base64.replaceAll('+', '.');
}
