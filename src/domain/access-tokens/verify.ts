import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { hasPassed, expiredError, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { EndForReuse } from '../sessions/end-for-reuse.ts';
import type { WriteBehind } from '../tokens/write-behind.ts';
import type { ReadThroughStates } from '../tokens/read-through.ts';
import { ANY_GENERATION } from '../sessions/rotation.ts';
import { isLongLived, sessionEnd, type Lifetimes } from '../tokens/claims.ts';
import type { Bearer, Demand, ExchangedBearer, LoginProof, Principal } from '../principal.ts';
import type { BearerRefusal, ProofRefusal } from '../refusal-reasons.ts';

interface VerifyPorts {
  readThrough: Pick<ReadThroughStates, 'checkAccess' | 'checkLongLived'>;
  writeBehind: Pick<WriteBehind, 'note' | 'noteUse'>;
  endForReuse: Pick<EndForReuse, 'queue'>;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
  observe: Pick<Observe, 'verification'>;
}

/**
 * Checks that the session of an access token or an exchanged one, an LLT or a limited token, is good now. The token's
 * signature and claims have been verified before. Takes one round trip to the fast store, and more only if the token's
 * key is missing there.
 * @throws AuthError `invalid_token`, `unavailable`
 */
export function makeVerify(ports: VerifyPorts) {
  const { readThrough, writeBehind, endForReuse, lifetimes, clock, audit, observe } = ports;

  const ask = (bearer: Bearer | ExchangedBearer) =>
    isLongLived(bearer.type)
      ? readThrough.checkLongLived(bearer)
      : readThrough.checkAccess(bearer, bearer.type === 'exchanged' ? ANY_GENERATION : bearer.generation);

  return async function verify(bearer: Bearer | ExchangedBearer, from: Sourced): Promise<Principal> {
    const { type, userId, tokenId, generation, acr, authTime } = bearer;
    let answer: Awaited<ReturnType<typeof ask>>;
    try {
      answer = await ask(bearer);
    } catch (error) {
      observe.verification(type, 'unavailable');
      throw error;
    }
    // The replica that found this theft may have died before it wrote the record.
    if (answer.outcome === 'reused' && endForReuse.queue({ userId, tokenId }, from))
      audit({ event: 'session.reuse_detected', userId, tokenId, generation }, from);
    if (answer.outcome !== 'good') {
      observe.verification(type, answer.outcome === 'reused' ? 'revoked' : answer.outcome);
      throw new AuthError('invalid_token', { reason: answer.outcome });
    }
    const { user, createdAt, confirmed, usedAt } = answer;
    if (confirmed) writeBehind.note({ userId, tokenId }, confirmed);
    if (usedAt !== undefined) writeBehind.noteUse(tokenId, usedAt);
    const isOver = !isLongLived(type) && sessionEnd(createdAt, lifetimes) <= clock.now();
    observe.verification(type, !isOver ? 'good' : clock.isTrusted() ? 'expired' : 'unavailable');
    if (isOver) throw expiredError(clock, 'invalid_token');
    return {
      user,
      tokenId,
      type: type === 'exchanged' ? 'access' : type,
      generation,
      createdAt,
      acr,
      authTime,
    };
  };
}

export type Verify = ReturnType<typeof makeVerify>;

/**
 * Refuses a good token whose login does not meet the demand.
 * @param proof null for a token of a service, which has no login.
 * @throws AuthError `insufficient_user_authentication`, `unavailable`
 */
export function requireProof(
  proof: LoginProof | null,
  demand: Demand,
  clock: Pick<Clock, 'now' | 'isTrusted'>,
): void {
  const { acr, maxAge } = demand;
  const refusal = (reason: ProofRefusal) =>
    new AuthError('insufficient_user_authentication', { demand, reason });
  const proven = proof?.acr ?? null;
  if (acr !== null && proven !== acr && !(acr === 'mfa' && proven === 'phr')) throw refusal('acr');
  if (maxAge === null) return;
  if (!proof || proof.authTime === null) throw refusal('max_age');
  if (!hasPassed(proof.authTime + maxAge, clock.now())) return;
  throw clock.isTrusted() ? refusal('max_age') : new AuthError('unavailable');
}

/** Why a token was refused, by one of the reasons that its kind has; null for an outage and any other error. */
export function refusalOf(error: unknown): BearerRefusal | null {
  const isRefusal = error instanceof AuthError && error.code === 'invalid_token';
  return isRefusal ? (error.reason as BearerRefusal) : null;
}
