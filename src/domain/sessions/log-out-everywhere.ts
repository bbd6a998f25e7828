import type { Bearer, Caller } from '../access-tokens/principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { RevocationStore, TokenStore } from '../tokens/ports.ts';
import type { TokenRecord } from '../tokens/token-record.ts';
import { sessionExpiry, usedSince, type Lifetimes } from '../tokens/claims.ts';
import type { TokenStateStore } from '../tokens/token-states.ts';

interface LogOutEverywherePorts {
  tokens: Pick<TokenStore, 'revokeAll' | 'find' | 'list'>;
  /** Without publishing: one event may cover all tokens. */
  tokenStates: Pick<TokenStateStore, 'revoke'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser'>;
  revocations: Pick<RevocationStore, 'pending' | 'settle'>;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

type Owner = Pick<Bearer, 'userId' | 'tokenId' | 'type'>;

/** Tombstones set at once. */
const PAGE = 1000;

/** Ends every session and long-lived token of a user. */
export function makeLogOutEverywhere(ports: LogOutEverywherePorts) {
  const { tokens, tokenStates, feed, revocations, lifetimes, clock, audit } = ports;

  /**
   * Tells the fast store and the feed of every pending revocation of the user, including those of earlier tries. The
   * logout is reported as done only after that.
   * @param before no token of the user up to this id is good; 0 if one may be.
   */
  async function finish(userId: number, before: number): Promise<void> {
    for (;;) {
      const page = await revocations.pending(PAGE, userId);
      await Promise.all(page.map((key) => tokenStates.revoke(key)));
      const covered = page.filter(({ tokenId }) => tokenId <= before);
      if (covered.length > 0) await feed.publishUser({ userId, before }, covered);
      await feed.publish(page);
      await revocations.settle(page.map(({ tokenId }) => tokenId));
      if (page.length < PAGE) return;
    }
  }

  /**
   * Completes a "log out everywhere" that already took effect: the client repeats it because the answer was lost, or
   * another device was first. The caller's session has ended, so this ends no further token.
   * @returns false if the user has a live token, or is disabled.
   */
  async function completeIfAllEnded({ userId, tokenId, type }: Owner): Promise<boolean> {
    if (type === 'llt') return false;
    const found = await tokens.find(tokenId);
    if (found?.record.userId !== userId || found.user.disabled) return false;
    // The records that `end` would end, also some that look expired: a record may be behind its session.
    const left = await tokens.list(userId, usedSince(clock.now(), lifetimes));
    if (left.length > 0) return false;
    await finish(userId, 0);
    return true;
  }

  function isLive(at: number, { type, createdAt, expiresAt, state }: TokenRecord): boolean {
    if (type === 'llt') return expiresAt === null || expiresAt > at;
    return sessionExpiry(createdAt, state.latest, lifetimes) > at;
  }

  return {
    /**
     * Ends all tokens in one commit, and then in the fast store. A repeat is safe.
     * @param keepsCurrent keeps the caller's session.
     * @returns how many live tokens this call has ended.
     * @throws AuthError `token_not_allowed` (the caller presents an LLT: a leaked one must not lock its owner out),
     * `invalid_token` (the caller's session has ended meanwhile), `unavailable`
     */
    async end({ user, tokenId, type }: Caller, keepsCurrent: boolean, from: Sourced): Promise<number> {
      if (type === 'llt') throw new AuthError('token_not_allowed');
      const at = clock.now();
      const ending = { at, reason: 'logout', usedSince: usedSince(at, lifetimes) } as const;
      const revoked = await tokens
        .revokeAll(user.id, { ...ending, caller: tokenId, keepsCaller: keepsCurrent })
        .catch(async (error: unknown) => {
          // Another device was first, and has ended everything that this call would end.
          const hasEnded = error instanceof AuthError && error.code === 'invalid_token';
          if (hasEnded && !keepsCurrent && (await completeIfAllEnded({ userId: user.id, tokenId, type })))
            return null;
          throw error;
        });
      if (revoked === null) return 0;
      const { ended, before } = revoked;
      const tokenIds = ended.filter((record) => isLive(at, record)).map(({ id }) => id);
      // Audited before the next step: if it fails, a retry finds nothing left to report.
      if (ended.length > 0)
        audit({ event: 'user.logged_out', userId: user.id, by: tokenId, tokenIds, before }, from);
      await finish(user.id, before ?? 0);
      return tokenIds.length;
    },

    completeIfAllEnded,
  };
}

export type LogOutEverywhere = ReturnType<typeof makeLogOutEverywhere>;
