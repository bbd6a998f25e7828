import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import { AuthError, ignoreOutage } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { TokenStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';
import type { TokenStateStore, Unusable } from './token-state-store.ts';

type Missing = Extract<Unusable, { outcome: 'missing' }>;
type Ended = { outcome: 'gone' | 'revoked' };
type Presented = 'rotate' | 'checkAccess' | 'checkLongLived';
type AnswerOf<Method extends Presented> = Awaited<ReturnType<TokenStateStore[Method]>>;

/**
 * The store's checks as use cases call them: they never answer `missing`. `gone` means that the token has no record, or
 * that its record belongs to another user or type.
 */
export type ReadThroughStates = {
  [Method in Presented]: (
    ...args: Parameters<TokenStateStore[Method]>
  ) => Promise<Exclude<AnswerOf<Method>, Missing> | Ended>;
};

export interface ReadThroughPorts {
  tokens: Pick<TokenStore, 'find'>;
  clock: Pick<Clock, 'monotonic'>;
  observe: Pick<Observe, 'readThrough'>;
}

/** The store may refuse a rebuilt state as too old, or lose it again. A second rebuild gets past that. */
const MAX_REBUILDS = 2;

/**
 * A decorator of the token-state store: on a cache miss it rebuilds the state from the record and asks again.
 * @throws AuthError `unavailable` after MAX_REBUILDS misses, and if a store is down
 */
export function withReadThrough(
  tokenStates: Pick<TokenStateStore, Presented | 'put' | 'noteEnded'>,
  { tokens, clock, observe }: ReadThroughPorts,
): ReadThroughStates {
  /** @returns null if the token has a record to rebuild from. */
  async function rebuild(key: TokenKey, type: TokenRecord['type'], asOf: number): Promise<Ended | null> {
    const found = await tokens.find(key.tokenId);
    const isOwn = found?.record.userId === key.userId && found.record.type === type;
    if (!isOwn || found.record.revokedAt !== null) {
      // Its tombstone expired or was lost. A full Redis takes no note, and the token has ended all the same.
      if (isOwn) await tokenStates.noteEnded(key).catch(ignoreOutage);
      observe.readThrough('gone');
      return { outcome: isOwn ? 'revoked' : 'gone' };
    }
    const isAccepted = await tokenStates.put(found.record, found.user, asOf);
    observe.readThrough(isAccepted ? 'rebuilt' : 'refused');
    return null;
  }

  async function retry<Answer extends { outcome: string }>(
    key: TokenKey,
    type: TokenRecord['type'],
    ask: () => Promise<Answer | Missing>,
  ): Promise<Answer | Ended> {
    for (let rebuilds = 0; ; rebuilds++) {
      const answer = await ask();
      if (!isMissing(answer)) return answer;
      if (rebuilds === MAX_REBUILDS) throw new AuthError('unavailable');
      const ended = await rebuild(key, type, answer.now);
      if (ended) return ended;
    }
  }

  return {
    rotate(key, presented) {
      const start = clock.monotonic();
      // The time of a rebuild counts as time inside the service.
      const elapsed = () => presented.elapsed + Math.ceil((clock.monotonic() - start) * 1000);
      return retry(key, 'session', () => tokenStates.rotate(key, { ...presented, elapsed: elapsed() }));
    },
    checkAccess: (key, generation) => retry(key, 'session', () => tokenStates.checkAccess(key, generation)),
    checkLongLived: (key) => retry(key, 'llt', () => tokenStates.checkLongLived(key)),
  };
}

function isMissing(answer: { outcome: string }): answer is Missing {
  return answer.outcome === 'missing';
}
