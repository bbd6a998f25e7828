import type { LoginProof, TokenIdentity } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { expiredError, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { Observe } from '../metrics/observe.ts';
import type { RefreshOutcome } from '../metrics/outcomes.ts';
import type { ReadThroughStates } from '../tokens/read-through.ts';
import { sessionEnd, type Lifetimes } from '../tokens/claims.ts';
import type { EndForReuse } from './end-for-reuse.ts';
import type { RotationOutcome } from '../tokens/session-state.ts';
import type { SessionGrant } from './session.ts';
import type { WriteBehind } from '../tokens/write-behind.ts';

interface RefreshPorts {
  readThrough: Pick<ReadThroughStates, 'rotate'>;
  endForReuse: Pick<EndForReuse, 'end'>;
  writeBehind: Pick<WriteBehind, 'note'>;
  lifetimes: Lifetimes;
  /** REFRESH_RETRY_WINDOW in seconds. */
  retryWindow: number;
  clock: Clock;
  audit: Audit;
  observe: Pick<Observe, 'refresh'>;
}

export interface RefreshRequest {
  /** The claims of the presented refresh token. */
  identity: TokenIdentity & Pick<LoginProof, 'acr'>;
  /** Keyed hash of address and User-Agent; empty if the client's address is unknown. */
  caller: string;
  /** When the service had received the complete request, by Clock.monotonic. */
  receivedAt: number;
  from: Sourced;
}

/**
 * Exchanges a refresh token for the next pair of its session.
 * @throws AuthError `invalid_token`, `token_reused` (the session has ended), `refresh_overlap`, `unavailable`
 */
export function makeRefresh(ports: RefreshPorts) {
  const { readThrough, lifetimes, clock, observe } = ports;
  const window = ports.retryWindow * 1_000_000;

  const present = ({ identity, caller, receivedAt }: RefreshRequest) =>
    readThrough.rotate(identity, {
      generation: identity.generation,
      elapsed: Math.ceil((clock.monotonic() - receivedAt) * 1000),
      window,
      caller,
    });

  return async function refresh(request: RefreshRequest): Promise<SessionGrant> {
    const { identity, from } = request;
    let answer: Awaited<ReturnType<typeof present>>;
    try {
      answer = await present(request);
    } catch (error) {
      observe.refresh('unavailable');
      throw error;
    }
    const isOver =
      (answer.outcome === 'issued' || answer.outcome === 'repeated') &&
      sessionEnd(answer.createdAt, lifetimes) <= clock.now();
    observe.refresh(!isOver ? rowOf(answer) : clock.isTrusted() ? 'expired' : 'unavailable');

    switch (answer.outcome) {
      case 'issued':
      case 'repeated':
        if (answer.outcome === 'issued') ports.writeBehind.note(idsOf(identity), answer.state);
        if (isOver) throw expiredError(clock, 'invalid_token');
        return {
          user: answer.user,
          createdAt: answer.createdAt,
          tokenId: identity.tokenId,
          generation: answer.state.latest,
          acr: identity.acr,
        };
      case 'held':
        throw new AuthError('refresh_overlap', {
          retryAfter: Math.max(1, Math.ceil(answer.retryAfter / 1e6)),
        });
      case 'refused':
        if (answer.reason === 'clock') ports.audit({ event: 'clock.wrong', ...idsOf(identity) }, from);
        throw new AuthError('unavailable');
      case 'reused':
        ports.audit(
          { event: 'session.reuse_detected', ...idsOf(identity), generation: identity.generation },
          from,
        );
        // Only the answer that found the theft has the user. A later answer reads a tombstone, which does not say which
        // generation was reused.
        await ports.endForReuse.end(
          idsOf(identity),
          'user' in answer ? identity.generation : undefined,
          from,
        );
        throw new AuthError('token_reused');
      case 'revoked':
      case 'disabled':
      case 'gone':
        throw new AuthError('invalid_token', { reason: answer.outcome });
    }
  };
}

/** The row of the rotation table that applied, or why none did. */
function rowOf(answer: RotationOutcome | { outcome: 'revoked' | 'disabled' | 'gone' }): RefreshOutcome {
  if (answer.outcome === 'issued') return answer.row;
  return answer.outcome === 'refused' ? answer.reason : answer.outcome;
}

function idsOf({ userId, tokenId }: TokenIdentity) {
  return { userId, tokenId };
}

export type Refresh = ReturnType<typeof makeRefresh>;
