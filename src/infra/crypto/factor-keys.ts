import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { SecretBox } from '../../domain/factors/ports.ts';
import { fromBase32 } from '../../domain/factors/totp.ts';
import { AuthError } from '../../domain/errors.ts';
import type { ReadField } from '../../domain/users/import-line.ts';
import { KeyError, parseSecrets } from './keys.ts';

/** AES-256. */
const KEY_BYTES = 32;
/** NIST SP 800-38D, section 8.2.2: random, of 96 bits. */
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

interface FactorKey {
  /** Taken from the key's hash. */
  id: string;
  key: Buffer;
}

/** Reads FACTOR_KEYS: base64url keys of 32 bytes, comma-separated. @throws KeyError */
export function parseFactorKeys(text: string): FactorKey[] {
  const keys = parseSecrets(text, 'key').map(({ kid: id, secret: key }, i) => {
    if (key.length !== KEY_BYTES)
      throw new KeyError(`key ${i + 1} has ${key.length} bytes, not ${KEY_BYTES}`);
    return { id, key };
  });
  if (new Set(keys.map(({ id }) => id)).size < keys.length) throw new KeyError('a key stands there twice');
  return keys;
}

/**
 * Encrypts TOTP secrets with AES-256-GCM, bound to their users: a row that is copied to another account opens nothing.
 * @param keys the first encrypts, all decrypt. None: factors cannot be added.
 */
export function makeSecretBox(keys: readonly FactorKey[]): SecretBox {
  const [newest] = keys;
  return {
    canSeal: newest !== undefined,
    keyIds: keys.map(({ id }) => id),

    seal(userId, secret) {
      if (!newest) throw new AuthError('factors_disabled');
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv('aes-256-gcm', newest.key, nonce).setAAD(boundTo(userId));
      const text = Buffer.concat([cipher.update(secret), cipher.final()]);
      return { keyId: newest.id, secret: Buffer.concat([nonce, text, cipher.getAuthTag()]) };
    },

    open(userId, { keyId, secret }) {
      const found = keys.find(({ id }) => id === keyId);
      if (!found)
        // Without the account: the log then has one line for all that lack it.
        throw unreadable(`a secret needs the key ${keyId}, which FACTOR_KEYS lacks`);
      const sealed = Buffer.from(secret);
      const nonce = sealed.subarray(0, NONCE_BYTES);
      try {
        const decipher = createDecipheriv('aes-256-gcm', found.key, nonce, { authTagLength: TAG_BYTES })
          .setAAD(boundTo(userId))
          .setAuthTag(sealed.subarray(-TAG_BYTES));
        return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
      } catch {
        throw unreadable(`the secret of account ${userId} is not one that was encrypted for it`);
      }
    },
  };
}

/**
 * RFC 4226, section 4, demands 128, but libraries such as otplib made 80 (16 characters of base32) for years. Refusing
 * those would part their owners from an app that works, and nobody searches 80 bits for a code of 20.
 */
export const LEAST_SECRET_BITS = 80;
/** A longer key of HMAC-SHA-1 is one of 160 bits in effect. */
export const MOST_SECRET_BITS = 512;

/**
 * Reads the secret of an authenticator app that another system has set up, in base32. Messages hold no value.
 * @param secrets without a key, no secret is read: the account would be open to its password alone.
 */
export function makeReadTotpSecret({ canSeal }: Pick<SecretBox, 'canSeal'>) {
  return function readTotpSecret(value: unknown): ReadField<Uint8Array | null> {
    if (value === undefined || value === null) return { ok: true, value: null };
    const secret = typeof value === 'string' ? fromBase32(value) : null;
    if (!secret) return { ok: false, message: 'must be base32' };
    const bits = secret.length * 8;
    if (bits < LEAST_SECRET_BITS || bits > MOST_SECRET_BITS)
      return { ok: false, message: `must have ${LEAST_SECRET_BITS} to ${MOST_SECRET_BITS} bits` };
    if (!canSeal) return { ok: false, message: "needs the service's FACTOR_KEYS" };
    return { ok: true, value: secret };
  };
}

function boundTo(userId: number): Buffer {
  return Buffer.from(`latchkey totp ${userId}`);
}

/** For the log: the client learns only that it should try again. Never fewer proofs. */
function unreadable(message: string): AuthError {
  return new AuthError('unavailable', { cause: new KeyError(message) });
}
