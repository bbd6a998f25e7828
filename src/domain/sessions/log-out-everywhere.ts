import type { Bearer, Caller } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { TokenStore } from '../tokens/ports.ts';
import { usedSince, type Lifetimes } from '../tokens/claims.ts';
import { liveIds, type FinishEndings } from '../tokens/finish-endings.ts';

interface LogOutEverywherePorts {
  tokens: Pick<TokenStore, 'revokeAll' | 'find' | 'list'>;
  finishEndings: FinishEndings;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

type Owner = Pick<Bearer, 'userId' | 'tokenId' | 'type'>;

/** Ends every session and long-lived token of a user. */
export function makeLogOutEverywhere(ports: LogOutEverywherePorts) {
  const { tokens, finishEndings, lifetimes, clock, audit } = ports;

  /**
   * Completes a "log out everywhere" that already took effect: the client repeats it because the answer was lost, or
   * another device was first. The caller's session has ended, so this ends no further token.
   * @returns false if the user has a live token, or is disabled.
   */
  async function completeIfAllEnded({ userId, tokenId, type }: Owner): Promise<boolean> {
    if (type !== 'access') return false;
    const found = await tokens.find(tokenId);
    if (found?.record.userId !== userId || found.user.disabled) return false;
    // The records that `end` would end, also some that look expired: a record may be behind its session.
    const left = await tokens.list(userId, usedSince(clock.now(), lifetimes));
    if (left.length > 0) return false;
    await finishEndings(userId, 0);
    return true;
  }

  return {
    /**
     * Ends all tokens in one commit, and then in the fast store. A repeat is safe.
     * @param keepsCurrent keeps the caller's session.
     * @returns how many live tokens this call has ended.
     * @throws AuthError `token_not_allowed` (the caller presents an LLT: a leaked one must not lock its owner out),
     * `invalid_token` (the caller's session has ended meanwhile), `rate_limited`, `unavailable`
     */
    async end({ user, tokenId, type }: Caller, keepsCurrent: boolean, from: Sourced): Promise<number> {
      if (type !== 'access') throw new AuthError('token_not_allowed');
      const at = clock.now();
      const ending = { at, reason: 'logout', usedSince: usedSince(at, lifetimes) } as const;
      const revoked = await tokens
        .revokeAll(user.id, { ...ending, caller: { tokenId, withFactor: null }, keepsCaller: keepsCurrent })
        .catch(async (error: unknown) => {
          // Another device was first, and has ended everything that this call would end.
          const hasEnded = error instanceof AuthError && error.code === 'invalid_token';
          if (hasEnded && !keepsCurrent && (await completeIfAllEnded({ userId: user.id, tokenId, type })))
            return null;
          throw error;
        });
      if (revoked === null) return 0;
      const { ended, before } = revoked;
      const tokenIds = liveIds(ended, at, lifetimes);
      // Audited before the next step: if it fails, a retry finds nothing left to report.
      if (ended.length > 0)
        audit({ event: 'user.logged_out', userId: user.id, by: tokenId, tokenIds, before }, from);
      await finishEndings(user.id, before ?? 0);
      return tokenIds.length;
    },

    completeIfAllEnded,
  };
}

export type LogOutEverywhere = ReturnType<typeof makeLogOutEverywhere>;
