import type { FeedMessage } from './feed-message.ts';
import type { Introspect } from './introspect.ts';
import type { Revocations } from './revocations.ts';
import type { VerifiedToken } from './verified-token.ts';

/**
 * Most long-lived tokens never expire, so a list of revocations that drops old entries cannot tell which are good. The
 * verifier asks Latchkey at the first check of each token. From then on, the feed reports its revocation.
 */
export interface LongLivedTokens {
  learn(message: FeedMessage): void;
  /** Whether the token was found good before, and no revocation has arrived since. */
  isKnown(verified: VerifiedToken): boolean;
  /** @throws VerifierError `invalid_token`, `unavailable` */
  ask(token: string, verified: VerifiedToken): Promise<void>;
}

interface Parts {
  introspect: Introspect;
  revocations: Pick<Revocations, 'includes'>;
  /** The most tokens to keep; the least recently used makes room. */
  size: number;
}

export function makeLongLivedTokens({ introspect, revocations, size }: Parts): LongLivedTokens {
  /** Token id → user id, the least recently used first. */
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
        // The verifier may have missed revocations, and the snapshot contains only those of tokens that can still
        // expire.
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
      // The feed may have reported something newer than this answer.
      if (snapshots === before && !revocations.includes(verified)) keep(verified);
    },
  };
}
