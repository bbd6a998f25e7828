import type { Bearer } from '../access-tokens/principal.ts';
import type { Audit } from '../audit/event.ts';
import { AuthError } from '../errors.ts';
import type { Revoke } from '../tokens/revoke.ts';

interface LogOutPorts {
  revoke: Revoke;
  audit: Audit;
}

/**
 * Ends the session or LLT that the presented token belongs to. It takes nothing but a right signature: a second tab
 * that refreshed meanwhile must not make a sign-out fail, and one whose answer was lost may be sent again.
 * @throws AuthError `invalid_token` (no such record), `unavailable`
 */
export function makeLogOut({ revoke, audit }: LogOutPorts) {
  return async function logOut({ userId, tokenId, type }: Bearer): Promise<void> {
    if (!(await revoke(userId, tokenId, type === 'llt' ? 'llt' : 'session')))
      throw new AuthError('invalid_token');
    audit({ event: 'token.revoked', userId, tokenId, by: tokenId });
  };
}

export type LogOut = ReturnType<typeof makeLogOut>;
