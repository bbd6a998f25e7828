import { pairClaims } from '../domain/access-tokens/claims.ts';
import type { SessionGrant } from '../domain/sessions/session.ts';
import type { Lifetimes } from '../domain/tokens/token-record.ts';
import type { TokenCodec } from './plugins/jwt.ts';
import { userBody } from './schemas.ts';

/** Signs both tokens of a grant: the answer of login, signup and refresh. */
export function makePairBody(codec: TokenCodec, lifetimes: Lifetimes) {
  return function pairBody({ user, tokenId, generation, createdAt }: SessionGrant) {
    const { access, refresh } = pairClaims({ userId: user.id, tokenId, generation }, createdAt, lifetimes);
    return {
      access_token: codec.sign('access', access),
      refresh_token: codec.sign('refresh', refresh),
      user: userBody(user),
    };
  };
}

export type PairBody = ReturnType<typeof makePairBody>;
