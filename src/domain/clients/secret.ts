import { createHash, timingSafeEqual } from 'node:crypto';
import type { ServiceClient } from './service-client.ts';

/** By which a secret that went where it should not is found and reported. */
const SECRET_PREFIX = 'lks_';
const ID_PREFIX = 'lkc_';

/** 256 and 128 bits. */
const SECRET_BYTES = 32;
const ID_BYTES = 16;

export type RandomBytes = (size: number) => Buffer;

/** Letters, digits, `-` and `_` only: the same whether or not a client form-encodes it (RFC 6749, section 2.3.1). */
export function newSecret(randomBytes: RandomBytes): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
}

export function newClientId(randomBytes: RandomBytes): string {
  return ID_PREFIX + randomBytes(ID_BYTES).toString('base64url');
}

/**
 * One round of SHA-256: a slow hash makes guessing dear, and 256 random bits cannot be guessed. It would cost every
 * introspection what a login costs.
 */
export function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** Compared with where there is nothing to compare with. No secret that anybody could find has this hash. */
const NO_HASH = new Uint8Array(32);

/**
 * Whether this is the hash of one of the client's secrets, in a time that depends on neither: an unknown client, one secret
 * and two cost the same.
 */
export function isHashOf(
  client: Pick<ServiceClient, 'secretHash' | 'previousHash'> | undefined,
  hash: Uint8Array,
): boolean {
  const isNewest = timingSafeEqual(hash, client?.secretHash ?? NO_HASH);
  const isPrevious = timingSafeEqual(hash, client?.previousHash ?? NO_HASH);
  return isNewest || isPrevious;
}
