import { REMEMBERED } from './costs.ts';

/** Bytes that `latchkey doctor` takes if it runs in the container of a replica. */
const DOCTOR_BYTES = 125 * 1024 ** 2;

const MOST_REMEMBERED = 1_000_000;
/** Without a memory limit. */
export const UNLIMITED_REMEMBERED = 100_000;

/** Bytes for each token that a replica surely remembers (http/verified-credentials.ts). */
export const REMEMBERED_BYTES = 192;

/**
 * How many verified tokens a replica remembers: REMEMBERED, and as many more as fit beside them.
 * @param limit the memory limit in bytes; 0 for none.
 * @param needed bytes of the process and its password hashes.
 */
export function rememberedTokens(limit: number, needed: number): number {
  if (limit === 0) return UNLIMITED_REMEMBERED;
  const left = Math.max(0, limit - needed - DOCTOR_BYTES);
  return Math.min(MOST_REMEMBERED, REMEMBERED + Math.floor(left / REMEMBERED_BYTES));
}
