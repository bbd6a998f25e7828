import { hash, timingSafeEqual } from 'node:crypto';
import type { RegisteredService } from './registered-service.ts';

/** Secret scanners find and report a leaked secret by this prefix. */
const SECRET_PREFIX = 'lks_';
const ID_PREFIX = 'lkc_';

/** 256 and 128 bits. */
const SECRET_BYTES = 32;
const ID_BYTES = 16;

/** Client ids begin with letters, so none is a user's id. */
const SERVICE_ID = /^lkc_[A-Za-z0-9_-]{22}$/;

/** Whether a text has the form of a service's id. */
export function isServiceId(text: string): boolean {
  return SERVICE_ID.test(text);
}

/**
 * A secret that somebody has chosen, for development: one in the form of ours might be that of a real
 * service.
 */
export function isChosenSecret(text: string): boolean {
  return /^[!-~]{16,128}$/.test(text) && !text.startsWith(SECRET_PREFIX);
}

export type RandomBytes = (size: number) => Buffer;

/** Letters, digits, `-` and `_` only: the same whether or not a service form-encodes it (RFC 6749, section 2.3.1). */
export function newSecret(randomBytes: RandomBytes): string {
  return SECRET_PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
}

export function newServiceId(randomBytes: RandomBytes): string {
  return ID_PREFIX + randomBytes(ID_BYTES).toString('base64url');
}

/**
 * One round of SHA-256. A slow hash makes guessing expensive, but 256 random bits cannot be guessed, and every
 * introspection would cost as much as a login.
 */
export function hashSecret(secret: string): Buffer {
  return hash('sha256', secret, 'buffer');
}

/** Stands in for a missing hash, so that the comparison takes the same time. No known secret has this hash. */
const NO_HASH = new Uint8Array(32);

/**
 * Whether this is the hash of one of the service's secrets. The time it takes is the same for an unknown service, for one
 * secret and for two.
 */
export function isHashOf(
  service: Pick<RegisteredService, 'secretHash' | 'previousHash'> | undefined,
  hash: Uint8Array,
): boolean {
  const isNewest = timingSafeEqual(hash, service?.secretHash ?? NO_HASH);
  const isPrevious = timingSafeEqual(hash, service?.previousHash ?? NO_HASH);
  return isNewest || isPrevious;
}
