import type { FeedMessage } from './feed-message.ts';
import type { Introspect, Present } from './introspect.ts';
import type { Revocations } from './revocations.ts';
import type { Uses } from './uses.ts';
import type { LimitedToken, UserToken } from './verified-token.ts';

/**
 * Long-lived tokens, and limited ones too. Most never expire, or only after months, so a list of revocations that drops
 * old entries cannot tell which are good. The
 * verifier asks Latchkey at the first check of each token. From then on, the feed reports its revocation, and changes
 * of its user.
 */
export interface LongLivedTokens {
  learn(message: FeedMessage): void;
  /**
   * The user of a token that was found good before, if neither a revocation nor a change of its user has arrived since;
   * null otherwise. It counts as a use.
   */
  known(verified: UserToken | LimitedToken): Present | null;
  /** @returns the user's present state. @throws VerifierError `invalid_token`, `unavailable` */
  ask(token: string, verified: UserToken | LimitedToken): Promise<Present>;
}

interface Answer {
  userId: number;
  present: Present;
}

interface Parts {
  introspect: Introspect;
  revocations: Pick<Revocations, 'includes'>;
  uses: Pick<Uses, 'note'>;
  /** The most tokens to keep; the least recently used makes room. */
  size: number;
}

export function makeLongLivedTokens({ introspect, revocations, uses, size }: Parts): LongLivedTokens {
  /** By token id, the least recently used first. */
  const good = new Map<number, Answer>();
  /** The ids in `good` by user: an event about one user must not cost a look at all tokens. */
  const ofUser = new Map<number, Set<number>>();
  /** Requests that Latchkey has not answered yet. */
  const asking = new Set<{ userId: number; isOutdated: boolean }>();

  function keep(sid: number, answer: Answer): void {
    forget(sid);
    good.set(sid, answer);
    const ids = ofUser.get(answer.userId) ?? new Set();
    ofUser.set(answer.userId, ids.add(sid));
    const [oldest] = good.keys();
    if (good.size > size && oldest !== undefined) forget(oldest);
  }

  function forget(sid: number): void {
    const userId = good.get(sid)?.userId;
    if (userId === undefined) return;
    good.delete(sid);
    const ids = ofUser.get(userId);
    ids?.delete(sid);
    if (ids?.size === 0) ofUser.delete(userId);
  }

  function forgetUser(user: number, before = Infinity): void {
    for (const sid of ofUser.get(user) ?? []) if (sid <= before) forget(sid);
  }

  return {
    learn(message) {
      if (message.type === 'revoked') forget(message.token);
      else if (message.type === 'user_revoked') forgetUser(message.user, message.before);
      // Another event of the user, except of a new one, follows this one.
      else if (message.type === 'user' && message.event.type === 'changed') {
        const { userId } = message.event;
        forgetUser(userId);
        for (const each of asking) if (each.userId === userId) each.isOutdated = true;
      } else if (message.type === 'snapshot' && message.isLast) {
        // The verifier may have missed revocations, and the snapshot contains only those of tokens that can still
        // expire.
        good.clear();
        ofUser.clear();
        for (const each of asking) each.isOutdated = true;
      }
    },
    known({ sid, userId }) {
      const answer = good.get(sid);
      if (answer?.userId !== userId) return null;
      keep(sid, answer);
      uses.note(sid);
      return answer.present;
    },
    async ask(token, verified) {
      const { sid, userId } = verified;
      const request = { userId, isOutdated: false };
      asking.add(request);
      try {
        const present = await introspect(token, verified);
        // The feed may have reported something newer than this answer.
        if (!request.isOutdated && !revocations.includes(verified)) keep(sid, { userId, present });
        return present;
      } finally {
        asking.delete(request);
      }
    },
  };
}
