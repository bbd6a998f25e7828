import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { SessionStateStore, TokenKey, Unusable } from '../sessions/ports.ts';
import type { TokenStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';

type Missing = Extract<Unusable, { outcome: 'missing' }>;

interface ReadThroughPorts {
  states: Pick<SessionStateStore, 'put' | 'revoke'>;
  tokens: Pick<TokenStore, 'find'>;
  observe?: Pick<Observe, 'readThrough'>;
}

/** A second miss means that the rebuilt key was too old to be taken, or vanished again: worth one more try, not more. */
const MAX_REBUILDS = 2;

/**
 * Asks the fast store, and where it does not know the token rebuilds its state from the record and asks again.
 * A token without a record, of another user or of another type is `gone`.
 */
export function makeReadThrough({ states, tokens, observe = UNOBSERVED }: ReadThroughPorts) {
  return async function readThrough<Answer extends { outcome: string }>(
    key: TokenKey,
    type: TokenRecord['type'],
    ask: () => Promise<Answer>,
  ): Promise<Exclude<Answer, Missing> | { outcome: 'gone' }> {
    for (let rebuilds = 0; ; rebuilds++) {
      const answer = await ask();
      if (!isMissing(answer)) return answer as Exclude<Answer, Missing>;
      if (rebuilds === MAX_REBUILDS) throw new AuthError('unavailable');

      const found = await tokens.find(key.tokenId);
      const isTheirs = found?.record.userId === key.userId && found.record.type === type;
      if (!isTheirs || found.record.revokedAt !== null) {
        // Its tombstone has expired or was lost: the next try shall not ask the record again.
        if (isTheirs) await states.revoke(key);
        observe.readThrough('gone');
        return { outcome: 'gone' };
      }
      const isTaken = await states.put(found.record, found.user, answer.now);
      observe.readThrough(isTaken ? 'rebuilt' : 'refused');
    }
  };
}

function isMissing(answer: { outcome: string }): answer is Missing {
  return answer.outcome === 'missing';
}

export type ReadThrough = ReturnType<typeof makeReadThrough>;
