import { hash } from 'node:crypto';
import type { RandomBytes } from '../passwords/one-time-token.ts';
import { fromBase32, toBase32 } from './totp.ts';

const COUNT = 10;
/** 120 bits, which are 24 characters of base32. */
const BYTES = 15;
/** Room for any way to write one. */
const MAX_LENGTH = 128;

/** New recovery codes, in groups of four characters. */
export function newRecoveryCodes(randomBytes: RandomBytes): string[] {
  return Array.from({ length: COUNT }, () => toBase32(randomBytes(BYTES)).replace(/.{4}(?=.)/g, '$&-'));
}

/**
 * The hash under which a code is stored. One round of SHA-256: 120 random bits cannot be guessed.
 * @param code case, spaces and hyphens do not count.
 * @returns null if it does not have the form of a code.
 */
export function hashRecoveryCode(code: string): Buffer | null {
  const bytes = code.length > MAX_LENGTH ? null : fromBase32(code);
  return bytes?.length === BYTES ? hash('sha256', bytes, 'buffer') : null;
}
