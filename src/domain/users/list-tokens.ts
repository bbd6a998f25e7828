import type { Principal } from '../access-tokens/principal.ts';
import type { Clock } from '../clock.ts';
import { ENDED_SHOWN, type EndedToken } from '../tokens/ended-token.ts';
import type { TokenStore } from '../tokens/ports.ts';
import type { Lifetimes } from '../tokens/token-record.ts';
import type { Profile, TokenSummary } from './profile.ts';

interface ListTokensPorts {
  profile: Profile;
  tokens: Pick<TokenStore, 'listEnded'>;
  lifetimes: Lifetimes;
  clock: Clock;
}

/** More than a person reads, and less than a script that logs in all day leaves behind. */
export const MAX_ENDED_SHOWN = 100;

export interface TokenList {
  tokens: TokenSummary[];
  /** The newest first. */
  ended: EndedToken[];
  /** There are more than MAX_ENDED_SHOWN. */
  isCut: boolean;
}

/**
 * The owner's live tokens, and what became of those that ended in the last 30 days.
 * @throws AuthError `unavailable`
 */
export function makeListTokens({ profile, tokens, lifetimes, clock }: ListTokensPorts) {
  return async function listTokens(principal: Principal): Promise<TokenList> {
    const { tokens: live } = await profile(principal);
    const { ended, isCut } = await listEnded(tokens, principal.user.id, lifetimes, clock.now());
    // A refresh reaches the record later: what the fast store knows to be alive has not expired.
    const alive = new Set(live.map(({ id }) => id));
    return { tokens: live, ended: ended.filter(({ id }) => !alive.has(id)), isCut };
  };
}

export type ListTokens = ReturnType<typeof makeListTokens>;

/** The newest of what has ended in the last 30 days. */
export async function listEnded(
  tokens: Pick<TokenStore, 'listEnded'>,
  userId: number,
  lifetimes: Lifetimes,
  now: number,
): Promise<Pick<TokenList, 'ended' | 'isCut'>> {
  const range = { since: now - ENDED_SHOWN, now, limit: MAX_ENDED_SHOWN + 1 };
  const ended = await tokens.listEnded(userId, range, lifetimes);
  return { ended: ended.slice(0, MAX_ENDED_SHOWN), isCut: ended.length > MAX_ENDED_SHOWN };
}
