import { AuthError } from '../errors.ts';
import type { SessionStateStore } from '../sessions/ports.ts';
import type { User } from '../users/user.ts';
import type { TokenRecord } from './token-record.ts';

/**
 * Puts a token that has just been committed into the fast store. It saves the first use a rebuild, no more: when the
 * store goes away at just this moment the token is good all the same, and failing now would make a client repeat a
 * signup that has happened.
 */
export async function putCreated(
  states: Pick<SessionStateStore, 'put'>,
  record: Omit<TokenRecord, 'lastUsedAt' | 'revokedAt'>,
  user: User,
  asOf: number,
): Promise<void> {
  try {
    await states.put({ ...record, lastUsedAt: null, revokedAt: null }, user, asOf);
  } catch (error) {
    if (!(error instanceof AuthError && error.code === 'unavailable')) throw error;
  }
}
