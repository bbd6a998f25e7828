import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { EndForReuse } from '../sessions/end-for-reuse.ts';
import type { SessionStateStore } from '../sessions/ports.ts';
import type { WriteBehind } from '../sessions/write-behind.ts';
import type { ReadThrough } from '../tokens/read-through.ts';
import { sessionEnd, type Lifetimes } from '../tokens/token-record.ts';
import type { Bearer, Principal } from './principal.ts';

interface VerifyPorts {
  states: Pick<SessionStateStore, 'checkAccess' | 'checkLongLived'>;
  readThrough: ReadThrough;
  writeBehind: Pick<WriteBehind, 'note' | 'noteUse'>;
  endForReuse: Pick<EndForReuse, 'queue'>;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
  observe?: Pick<Observe, 'verification'>;
}

/**
 * Is this access token or LLT good right now? Its signature and claims have been verified; this asks for its session.
 * One round trip to the fast store and nothing else, unless its key is missing.
 * @throws AuthError `invalid_token`, `unavailable`
 */
export function makeVerify(ports: VerifyPorts) {
  const {
    states,
    readThrough,
    writeBehind,
    endForReuse,
    lifetimes,
    clock,
    audit,
    observe = UNOBSERVED,
  } = ports;

  const ask = (bearer: Bearer) =>
    readThrough(bearer, bearer.type === 'llt' ? 'llt' : 'session', () =>
      bearer.type === 'llt' ? states.checkLongLived(bearer) : states.checkAccess(bearer, bearer.generation),
    );

  return async function verify(bearer: Bearer): Promise<Principal> {
    const { type, userId, tokenId, generation } = bearer;
    let answer: Awaited<ReturnType<typeof ask>>;
    try {
      answer = await ask(bearer);
    } catch (error) {
      observe.verification(type, 'unavailable');
      throw error;
    }
    // Of a theft whose finder may not have lived to tell the record.
    if (answer.outcome === 'reused' && endForReuse.queue({ userId, tokenId }))
      audit({ event: 'session.reuse_detected', userId, tokenId, generation });
    if (answer.outcome !== 'good') {
      observe.verification(type, answer.outcome === 'reused' ? 'revoked' : answer.outcome);
      throw new AuthError('invalid_token');
    }
    const { user, createdAt, confirmed, usedAt } = answer;
    if (confirmed) writeBehind.note({ userId, tokenId }, confirmed);
    if (usedAt !== undefined) writeBehind.noteUse(tokenId, usedAt);
    const isOver = type === 'access' && sessionEnd(createdAt, lifetimes) <= clock.now();
    observe.verification(type, isOver ? 'expired' : 'good');
    if (isOver) throw new AuthError('invalid_token');
    return { user, tokenId, type };
  };
}

export type Verify = ReturnType<typeof makeVerify>;
