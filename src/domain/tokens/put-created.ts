import { ignoreOutage } from '../errors.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { User } from '../user.ts';
import type { TokenRecord } from './token-record.ts';

/**
 * The fast store keeps neither expiry nor scopes nor origin: the token holds the first two, and the record the origin.
 */
const UNUSED = { lastUsedAt: null, revokedAt: null, expiresAt: null, limited: null, createdBy: null };

/**
 * Puts a token that was just committed into the fast store, which only saves a rebuild at its first use. So an outage
 * of the store is ignored: the token is good, and an error would make a client repeat a signup that has succeeded.
 * @param user as the same commit read it; null if it was not read.
 * @param asOf of `preparePut` before the commit; null if the commit added the user.
 */
export async function putCreated(
  tokenStates: Pick<TokenStateStore, 'preparePut' | 'put'>,
  record: Omit<TokenRecord, keyof typeof UNUSED>,
  user: User | null,
  asOf: number | null,
): Promise<void> {
  try {
    const since = asOf ?? (await tokenStates.preparePut(record.userId));
    await tokenStates.put({ ...record, ...UNUSED }, user, since);
  } catch (error) {
    ignoreOutage(error);
  }
}
