import type { FeedMessage } from './feed-message.ts';
import type { Introspect } from './introspect.ts';
import type { Revocations } from './revocations.ts';
import type { VerifiedToken } from './verified-token.ts';

/**
 * Long-lived tokens never expire, so no list of revocations that is bounded by time can tell which are good. Latchkey is
 * asked about each when it is first seen; from then on the feed tells of its end.
 */
export interface LongLivedTokens {
  learn(message: FeedMessage): void;
  /** Found good before, and nothing else heard since. */
  isKnown(verified: VerifiedToken): boolean;
  /** @throws VerifierError `invalid_token`, `unavailable` */
  ask(token: string, verified: VerifiedToken): Promise<void>;
}

interface Parts {
  introspect: Introspect;
  revocations: Pick<Revocations, 'includes'>;
  /** How many are kept; the one unused for longest makes room. */
  size: number;
}

export function makeLongLivedTokens({ introspect, revocations, size }: Parts): LongLivedTokens {
  /** Token id → its user's; the one used last is the last. */
  const good = new Map<number, number>();
  let snapshots = 0;

  function keep({ sid, userId }: VerifiedToken): void {
    good.delete(sid);
    good.set(sid, userId);
    const [oldest] = good.keys();
    if (good.size > size && oldest !== undefined) good.delete(oldest);
  }

  return {
    learn(message) {
      if (message.type === 'revoked') good.delete(message.token);
      else if (message.type === 'user_revoked') {
        for (const [sid, userId] of good)
          if (userId === message.user && sid <= message.before) good.delete(sid);
      } else if (message.type === 'snapshot' && message.isLast) {
        // Something may have gone unheard, and the snapshot names only what can still expire.
        snapshots++;
        good.clear();
      }
    },
    isKnown(verified) {
      const isKnown = good.get(verified.sid) === verified.userId;
      if (isKnown) keep(verified);
      return isKnown;
    },
    async ask(token, verified) {
      const before = snapshots;
      await introspect(token, verified);
      // What the feed said while the answer was under way may be newer than the answer.
      if (snapshots === before && !revocations.includes(verified)) keep(verified);
    },
  };
}
