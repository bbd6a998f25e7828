import type { Principal } from '../access-tokens/principal.ts';
import type { Audit } from '../audit/event.ts';
import { AuthError } from '../errors.ts';
import type { Revoke } from './revoke.ts';
import type { TokenRecord } from './token-record.ts';

interface EndTokenPorts {
  revoke: Revoke;
  audit: Audit;
}

/**
 * Ends another token of the caller's. An LLT may not: a leaked one must not be able to lock its owner out.
 * @param type only a token of this type.
 * @throws AuthError `token_not_allowed`, `token_unknown`, `unavailable`
 */
export function makeEndToken({ revoke, audit }: EndTokenPorts) {
  return async function endToken(
    principal: Principal,
    tokenId: number,
    type?: TokenRecord['type'],
  ): Promise<void> {
    const userId = principal.user.id;
    if (principal.type === 'llt') throw new AuthError('token_not_allowed');
    if (!(await revoke(userId, tokenId, type))) throw new AuthError('token_unknown');
    audit({ event: 'token.revoked', userId, tokenId, by: principal.tokenId });
  };
}

export type EndToken = ReturnType<typeof makeEndToken>;
