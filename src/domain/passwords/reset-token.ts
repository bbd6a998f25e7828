import { hash } from 'node:crypto';

/** Secret scanners find and report a leaked token by this prefix. */
const PREFIX = 'lkr_';

/** 256 bits. */
const BYTES = 32;

/** Letters, digits, `-` and `_` only, so that it can stand in a link. */
export function newResetToken(randomBytes: (size: number) => Buffer): string {
  return PREFIX + randomBytes(BYTES).toString('base64url');
}

/** One round of SHA-256: 256 random bits cannot be guessed (as in clients/secret.ts). */
export function hashResetToken(token: string): Buffer {
  return hash('sha256', token, 'buffer');
}
