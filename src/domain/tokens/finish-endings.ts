import { ignoreOutage } from '../errors.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import { sessionExpiry, type Lifetimes } from './claims.ts';
import type { RevocationStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';
import type { TokenStateStore } from './token-state-store.ts';

interface FinishEndingsPorts {
  /** Without publishing: one event may cover all tokens. */
  tokenStates: Pick<TokenStateStore, 'revoke'>;
  feed: Pick<RevocationFeed, 'publish' | 'publishUser'>;
  revocations: Pick<RevocationStore, 'pending' | 'settle'>;
}

/** Tombstones set at once. */
const PAGE = 1000;

/**
 * Second half of ending many tokens of one user: tells the fast store and the feed of every pending revocation of the
 * user, including those of earlier tries. The request is reported as done only after that.
 */
export function makeFinishEndings({ tokenStates, feed, revocations }: FinishEndingsPorts) {
  /** @param before no token of the user up to this id is good; 0 if one may be. @throws AuthError `unavailable` */
  return async function finishEndings(userId: number, before: number): Promise<void> {
    for (let after = 0; ;) {
      const page = await revocations.pending(PAGE, userId, after);
      await tokenStates.revoke(...page);
      const covered = page.filter(({ tokenId }) => tokenId <= before);
      if (covered.length > 0) await feed.publishUser({ userId, before }, covered);
      await feed.publish(page);
      // If it fails, the sweep settles them: all that the request promises is done.
      await revocations.settle(page.map(({ tokenId }) => tokenId)).catch(ignoreOutage);
      const last = page.at(-1);
      if (page.length < PAGE || !last) return;
      after = last.tokenId;
    }
  };
}

export type FinishEndings = ReturnType<typeof makeFinishEndings>;

/** The ids of the records that had not expired at that time (ms). */
export function liveIds(records: readonly TokenRecord[], at: number, lifetimes: Lifetimes): number[] {
  const isLive = ({ type, createdAt, expiresAt, state }: TokenRecord) =>
    type === 'llt'
      ? expiresAt === null || expiresAt > at
      : sessionExpiry(createdAt, state.latest, lifetimes) > at;
  return records.filter(isLive).map(({ id }) => id);
}
