import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { IsCommonPassword } from '../../domain/passwords/policy.ts';

/** Written by scripts/breached-passwords.mjs: digests in ascending order, and nothing else. */
const FILE = new URL('breached-passwords/digests.bin', import.meta.url);

/** 40 bits a password: a password that is not on the list matches one of 280,000 digests once in four million. */
export const DIGEST_BYTES = 5;

/** The beginning of the SHA-256 of a password's list form. */
export function digestOf(form: string): number {
  return createHash('sha256').update(form).digest().readUIntBE(0, DIGEST_BYTES);
}

/** Reads the list of breached passwords once. It is searched where it lies, so it costs its size and no parsing. */
export function loadCommonPasswords(): IsCommonPassword {
  const list = readFileSync(FILE);
  if (list.length === 0 || list.length % DIGEST_BYTES !== 0)
    throw new Error(`${FILE.pathname} is damaged: ${list.length} bytes; build or install Latchkey again`);
  return (form) => contains(list, digestOf(form));
}

function contains(list: Buffer, digest: number): boolean {
  let low = 0;
  let high = list.length / DIGEST_BYTES;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const found = list.readUIntBE(middle * DIGEST_BYTES, DIGEST_BYTES);
    if (found === digest) return true;
    if (found < digest) low = middle + 1;
    else high = middle;
  }
  return false;
}
