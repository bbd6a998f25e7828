import { isLongLived, type TokenType } from './claims.ts';
import type { Bearer, Caller, TokenIdentity } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import { AuthError } from '../errors.ts';
import type { Revoke, RevokeByCaller } from './revoke.ts';
import type { TokenRecord } from './token-record.ts';

interface EndTokenPorts {
  revoke: Revoke;
  revokeByCaller: RevokeByCaller;
  audit: Audit;
}

/**
 * The three requests that end one token. Each throws AuthError `unavailable` or `rate_limited` if the token may still be
 * good. Each is audited once the record has ended: later steps may fail, and a repeat ends nothing.
 */
export function makeEndToken({ revoke, revokeByCaller, audit }: EndTokenPorts) {
  return {
    /**
     * Ends the session or LLT of the presented token. A valid signature is enough: a logout must not fail because
     * another tab has refreshed, and a client that lost the answer may repeat it.
     * @throws AuthError `invalid_token` (no such record)
     */
    async logOut(
      { userId, tokenId, type }: TokenIdentity & Pick<Bearer, 'type'>,
      from: Sourced,
    ): Promise<void> {
      const isKnown = await revoke(userId, tokenId, recordType(type), () => {
        audit({ event: 'token.revoked', userId, tokenId, by: tokenId, type: recordType(type) }, from);
      });
      if (!isKnown) throw new AuthError('invalid_token', { reason: 'gone' });
    },

    /**
     * Ends another token of the caller. Only a session may do this: a leaked LLT must not lock its owner out.
     * @param type only a token of this type.
     * @throws AuthError `token_not_allowed`, `token_unknown`, `invalid_token` (the caller's session has ended
     * meanwhile)
     */
    async endToken(
      caller: Caller,
      tokenId: number,
      from: Sourced,
      type?: TokenRecord['type'],
    ): Promise<void> {
      const userId = caller.user.id;
      if (caller.type !== 'access') throw new AuthError('token_not_allowed');
      const key = { userId, tokenId: caller.tokenId };
      const isKnown = await revokeByCaller(key, tokenId, type, () => {
        audit({ event: 'token.revoked', userId, tokenId, by: caller.tokenId, ...(type && { type }) }, from);
      });
      if (!isKnown) throw new AuthError('token_unknown');
    },

    /**
     * Ends the session or LLT of a token for a registered service (RFC 7009). A valid signature is enough, as for a
     * logout: the service may hold only a superseded or expired token. For a token without a record this is a no-op.
     */
    async revokeToken(
      { serviceId }: ServiceIdentity,
      { userId, tokenId, type }: TokenIdentity & { type: TokenType },
      from: Sourced,
    ): Promise<void> {
      const onRecorded = () => {
        audit({ event: 'token.revoked_by_client', userId, tokenId, serviceId }, from);
      };
      await revoke(userId, tokenId, recordType(type), onRecorded, 'service');
    },
  };
}

function recordType(type: TokenType): TokenRecord['type'] {
  return isLongLived(type) ? 'llt' : 'session';
}

type Endings = ReturnType<typeof makeEndToken>;
export type LogOut = Endings['logOut'];
export type EndToken = Endings['endToken'];
export type RevokeToken = Endings['revokeToken'];
