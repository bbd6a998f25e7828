import type { Bearer, Principal } from '../access-tokens/principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { RevocationStore, TokenStore } from '../tokens/ports.ts';
import { sessionExpiry, usedSince, type Lifetimes, type TokenRecord } from '../tokens/token-record.ts';
import type { SessionStateStore } from './ports.ts';

interface LogOutEverywherePorts {
  tokens: Pick<TokenStore, 'revokeAll' | 'find' | 'list'>;
  /** Without publishing: one event may do for all. */
  states: Pick<SessionStateStore, 'revoke'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser'>;
  revocations: Pick<RevocationStore, 'pending' | 'settle'>;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

/** Tombstones set at once. */
const PAGE = 1000;

/** Ends every session and long-lived token of a user. */
export function makeLogOutEverywhere(ports: LogOutEverywherePorts) {
  const { tokens, states, feed, revocations, lifetimes, clock, audit } = ports;

  /**
   * Whatever of the user's is on record as revoked and may not be known to the fast store, from an earlier try too: only
   * then is it said to be done.
   * @param before no token of the user up to this id is good; 0 where one may be.
   */
  async function finish(userId: number, before: number): Promise<void> {
    for (;;) {
      const page = await revocations.pending(PAGE, userId);
      await Promise.all(page.map((key) => states.revoke(key)));
      const covered = page.filter(({ tokenId }) => tokenId <= before);
      if (covered.length > 0) await feed.publishUser({ userId, before }, covered);
      await feed.publish(page);
      await revocations.settle(page.map(({ tokenId }) => tokenId));
      if (page.length < PAGE) return;
    }
  }

  function isLive(at: number, { type, createdAt, state }: TokenRecord): boolean {
    return type === 'llt' || sessionExpiry(createdAt, state.latest, lifetimes) > at;
  }

  return {
    /**
     * Ends all of it in one commit, and then in the fast store. Doing it again is safe.
     * @param keepsCurrent all but the session that asks.
     * @returns how many live tokens this has ended.
     * @throws AuthError `token_not_allowed` (asked with an LLT: a leaked one must not lock its owner out), `invalid_token`
     * (the session that asks was ended meanwhile), `unavailable`
     */
    async end({ user, tokenId, type }: Principal, keepsCurrent: boolean): Promise<number> {
      if (type === 'llt') throw new AuthError('token_not_allowed');
      const at = clock.now();
      const { ended, before } = await tokens.revokeAll(user.id, {
        at,
        reason: 'logout',
        usedSince: usedSince(at, lifetimes),
        keep: keepsCurrent ? tokenId : undefined,
      });
      const tokenIds = ended.filter((record) => isLive(at, record)).map(({ id }) => id);
      // Told now: it has happened, and a retry would find nothing left to tell.
      audit({ event: 'user.logged_out', userId: user.id, by: tokenId, tokenIds, before });
      await finish(user.id, before ?? 0);
      return tokenIds.length;
    },

    /**
     * Whether a session that is over is told that everything is: the answer was lost, and its client asks again. It may end
     * nothing any more, so that this is true only where nothing of the user's lives.
     */
    async hasHappened({ userId, tokenId, type }: Bearer): Promise<boolean> {
      if (type === 'llt') return false;
      const found = await tokens.find(tokenId);
      if (found?.record.userId !== userId || found.user.disabled) return false;
      // Every record that `end` would end: one that looks expired may be behind its session.
      const left = await tokens.list(userId, usedSince(clock.now(), lifetimes));
      if (left.length > 0) return false;
      await finish(userId, 0);
      return true;
    },
  };
}

export type LogOutEverywhere = ReturnType<typeof makeLogOutEverywhere>;
