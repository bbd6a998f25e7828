import type { RevocationFeed, UserStatus } from '../feed/ports.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { User } from '../user.ts';

interface FinishUserChangePorts {
  tokenStates: Pick<TokenStateStore, 'putUser'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
}

/**
 * Second half of a change that is on record with a new version: tells the fast store and the
 * feed. The request is reported as done only after that. If it fails, the next renewal does it (renew-changes.ts), and a
 * repeat is safe.
 */
export function makeFinishUserChange({ tokenStates, feed }: FinishUserChangePorts) {
  /**
   * @param user as the change has left it on record.
   * @param status if it has changed.
   * @throws AuthError `unavailable`
   */
  return async function finishUserChange(user: User, status: UserStatus | null = null): Promise<void> {
    await tokenStates.putUser(user);
    await feed.publishChanges([{ user, status }]);
  };
}

export type FinishUserChange = ReturnType<typeof makeFinishUserChange>;
