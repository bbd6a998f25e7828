import type { Principal } from '../principal.ts';
import type { Clock } from '../clock.ts';
import { ENDED_SHOWN, type EndedPosition, type EndedToken } from '../tokens/ended-token.ts';
import type { TokenStore } from '../tokens/ports.ts';
import type { Lifetimes } from '../tokens/claims.ts';
import type { AccountWithTokens, TokenSummary } from './account-with-tokens.ts';

interface ListTokensPorts {
  accountWithTokens: AccountWithTokens;
  tokens: Pick<TokenStore, 'listEnded'>;
  lifetimes: Lifetimes;
  clock: Clock;
}

/** Ended tokens per page. */
export const ENDED_PAGE = 100;

export interface TokenList {
  tokens: TokenSummary[];
  /** The newest first. */
  ended: EndedToken[];
  /** Where the next page begins; null on the last page. */
  next: EndedPosition | null;
}

/**
 * The owner's live tokens, and those that ended in the last 30 days.
 * @param before the last entry of the previous page of ended tokens.
 * @throws AuthError `unavailable`
 */
export function makeListTokens({ accountWithTokens, tokens, lifetimes, clock }: ListTokensPorts) {
  return async function listTokens(principal: Principal, before?: EndedPosition): Promise<TokenList> {
    const { tokens: live } = await accountWithTokens(principal);
    const { ended, next } = await listEnded(tokens, principal.user.id, lifetimes, clock.now(), before);
    // A refresh reaches the record late. A token that is live in the fast store has not expired.
    const alive = new Set(live.map(({ id }) => id));
    return { tokens: live, ended: ended.filter(({ id }) => !alive.has(id)), next };
  };
}

export type ListTokens = ReturnType<typeof makeListTokens>;

/** One page of the tokens that ended in the last 30 days. */
export async function listEnded(
  tokens: Pick<TokenStore, 'listEnded'>,
  userId: number,
  lifetimes: Lifetimes,
  now: number,
  before?: EndedPosition,
): Promise<Pick<TokenList, 'ended' | 'next'>> {
  const range = { since: now - ENDED_SHOWN, now, limit: ENDED_PAGE + 1, before };
  const found = await tokens.listEnded(userId, range, lifetimes);
  const ended = found.slice(0, ENDED_PAGE);
  return { ended, next: found.length > ENDED_PAGE ? (ended.at(-1) ?? null) : null };
}
