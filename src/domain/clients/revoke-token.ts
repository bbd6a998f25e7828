import type { TokenIdentity, TokenType } from '../access-tokens/claims.ts';
import type { Audit } from '../audit/event.ts';
import type { Revoke } from '../tokens/revoke.ts';
import type { ServiceIdentity } from './service-client.ts';

interface RevokeTokenPorts {
  revoke: Revoke;
  audit: Audit;
}

/**
 * Ends what a token belongs to for a registered service (RFC 7009): its session or LLT. It takes nothing but a right
 * signature, as a logout does: a token that was superseded or has expired may be all that the service has of a session
 * which somebody wants to see ended. What is not on record is over already.
 * @throws AuthError `unavailable`: not done, or not known to be
 */
export function makeRevokeToken({ revoke, audit }: RevokeTokenPorts) {
  return async function revokeToken(
    { clientId }: ServiceIdentity,
    { userId, tokenId, type }: TokenIdentity & { type: TokenType },
  ): Promise<void> {
    if (await revoke(userId, tokenId, type === 'llt' ? 'llt' : 'session'))
      audit({ event: 'token.revoked_by_client', userId, tokenId, clientId });
  };
}

export type RevokeToken = ReturnType<typeof makeRevokeToken>;
