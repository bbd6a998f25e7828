import type { Clock } from '../clock.ts';
import type { SessionStateStore } from '../sessions/ports.ts';
import type { EndReason } from './ended-token.ts';
import type { RevocationStore, TokenStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';

interface RevokePorts {
  states: Pick<SessionStateStore, 'revoke'>;
  tokens: Pick<TokenStore, 'revoke'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Clock;
}

/**
 * Ends a token for good: first in the record, so that no rebuild can bring it back, then in the fast store, so that
 * every replica refuses it from now on. Only when both are done is it said to be done, and doing it again is safe.
 * @returns false when the user has no such token.
 */
export function makeRevoke({ states, tokens, revocations, clock }: RevokePorts) {
  return async function revoke(
    userId: number,
    tokenId: number,
    type?: TokenRecord['type'],
    reason: EndReason = 'logout',
  ): Promise<boolean> {
    if (!(await tokens.revoke(userId, tokenId, clock.now(), type, reason))) return false;
    await states.revoke({ userId, tokenId });
    // Should this fail, the next sweep sets the tombstone once more.
    await revocations.settle([tokenId]);
    return true;
  };
}

export type Revoke = ReturnType<typeof makeRevoke>;
