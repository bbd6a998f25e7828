import { hash } from 'node:crypto';

/** 256 bits. */
const BYTES = 32;

/** Random bytes of a size. */
export type RandomBytes = (size: number) => Buffer;

/** What a user is mailed to set a new password. */
export function newResetToken(randomBytes: RandomBytes): string {
  return newToken('lkr_', randomBytes);
}

/** What a user is mailed to prove an address. */
export function newVerificationToken(randomBytes: RandomBytes): string {
  return newToken('lkv_', randomBytes);
}

/**
 * Letters, digits, `-` and `_` only, so that it can stand in a link.
 * @param prefix by which secret scanners find and report a leaked one.
 */
function newToken(prefix: string, randomBytes: RandomBytes): string {
  return prefix + randomBytes(BYTES).toString('base64url');
}

/** One round of SHA-256: 256 random bits cannot be guessed (as in services/secret.ts). */
export function hashOneTimeToken(token: string): Buffer {
  return hash('sha256', token, 'buffer');
}
