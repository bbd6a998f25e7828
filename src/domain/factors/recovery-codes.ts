import { hash } from 'node:crypto';
import type { RandomBytes } from '../passwords/one-time-token.ts';
import { fromBase32, plainCode, toBase32 } from './totp.ts';

const COUNT = 10;
/** 120 bits, which are 24 characters of base32. */
const BYTES = 15;

/** New recovery codes, in groups of four characters. */
export function newRecoveryCodes(randomBytes: RandomBytes): string[] {
  return Array.from({ length: COUNT }, () => toBase32(randomBytes(BYTES)).replace(/.{4}(?=.)/g, '$&-'));
}

/** New ones, and what is stored of them. */
export function makeRecoveryCodes(randomBytes: RandomBytes): { codes: string[]; codeHashes: Buffer[] } {
  const codes = newRecoveryCodes(randomBytes);
  // Each has the form of a code.
  return { codes, codeHashes: codes.flatMap((code) => hashRecoveryCode(code) ?? []) };
}

/**
 * The hash under which a code is stored. One round of SHA-256: 120 random bits cannot be guessed.
 * @param code as its owner types or copies it: case and what `plainCode` drops do not count.
 * @returns null if it does not have the form of a code.
 */
export function hashRecoveryCode(code: string): Buffer | null {
  const plain = plainCode(code);
  const bytes = plain === null ? null : fromBase32(plain);
  return bytes?.length === BYTES ? hash('sha256', bytes, 'buffer') : null;
}
