import type { TokenIdentity } from '../access-tokens/claims.ts';
import type { Audit } from '../audit/event.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { UNOBSERVED, type Observe } from '../metrics/observe.ts';
import type { RefreshOutcome } from '../metrics/outcomes.ts';
import type { ReadThrough } from '../tokens/read-through.ts';
import { sessionEnd, type Lifetimes } from '../tokens/token-record.ts';
import type { EndForReuse } from './end-for-reuse.ts';
import type { SessionStateStore } from './ports.ts';
import type { RotationOutcome } from './rotation.ts';
import type { SessionGrant } from './session.ts';
import type { WriteBehind } from './write-behind.ts';

interface RefreshPorts {
  states: Pick<SessionStateStore, 'rotate'>;
  readThrough: ReadThrough;
  endForReuse: Pick<EndForReuse, 'end'>;
  writeBehind: Pick<WriteBehind, 'note'>;
  lifetimes: Lifetimes;
  /** REFRESH_RETRY_WINDOW in seconds. */
  retryWindow: number;
  clock: Clock;
  audit: Audit;
  observe?: Pick<Observe, 'refresh'>;
}

export interface RefreshRequest {
  /** What the presented refresh token says. */
  identity: TokenIdentity;
  /** Keyed hash of address and User-Agent; empty where the address means nothing. */
  client: string;
  /** When the complete request was inside the service, by Clock.monotonic. */
  receivedAt: number;
}

/**
 * Exchanges a refresh token for the next pair of its session.
 * @throws AuthError `invalid_token`, `token_reused` (the session is over), `refresh_overlap`, `unavailable`
 */
export function makeRefresh(ports: RefreshPorts) {
  const { states, readThrough, lifetimes, clock, observe = UNOBSERVED } = ports;
  const window = ports.retryWindow * 1_000_000;

  const present = ({ identity, client, receivedAt }: RefreshRequest) =>
    readThrough(identity, 'session', () =>
      states.rotate(identity, {
        generation: identity.generation,
        elapsed: Math.ceil((clock.monotonic() - receivedAt) * 1000),
        window,
        client,
      }),
    );

  return async function refresh(request: RefreshRequest): Promise<SessionGrant> {
    const { identity } = request;
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
    observe.refresh(isOver ? 'expired' : rowOf(answer));

    switch (answer.outcome) {
      case 'issued':
      case 'repeated':
        if (answer.outcome === 'issued') ports.writeBehind.note(idsOf(identity), answer.state);
        if (isOver) throw new AuthError('invalid_token');
        return {
          user: answer.user,
          createdAt: answer.createdAt,
          tokenId: identity.tokenId,
          generation: answer.state.latest,
        };
      case 'held':
        throw new AuthError('refresh_overlap', {
          retryAfter: Math.max(1, Math.ceil(answer.retryAfter / 1e6)),
        });
      case 'refused':
        if (answer.reason === 'clock') ports.audit({ event: 'clock.wrong', ...idsOf(identity) });
        throw new AuthError('unavailable');
      case 'reused':
        ports.audit({ event: 'session.reuse_detected', ...idsOf(identity), generation: identity.generation });
        await ports.endForReuse.end(idsOf(identity));
        throw new AuthError('token_reused');
      case 'revoked':
      case 'disabled':
      case 'gone':
        throw new AuthError('invalid_token');
    }
  };
}

/** The line of the table that decided, or why none did. */
function rowOf(answer: RotationOutcome | { outcome: 'revoked' | 'disabled' | 'gone' }): RefreshOutcome {
  if (answer.outcome === 'issued') return answer.row;
  return answer.outcome === 'refused' ? answer.reason : answer.outcome;
}

function idsOf({ userId, tokenId }: TokenIdentity) {
  return { userId, tokenId };
}

export type Refresh = ReturnType<typeof makeRefresh>;
