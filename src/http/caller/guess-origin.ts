import type { FastifyRequest } from 'fastify';
import { ignoreOutage } from '../../domain/errors.ts';
import type { GuessOrigin } from '../../domain/passwords/guessing-limits.ts';
import type { NetworkOf } from './network.ts';
import type { CallerFingerprints } from './fingerprint.ts';
import { bearerTokenOf } from '../bearer.ts';
import type { TokenCodec } from '../token-codec.ts';

export interface GuessOriginOptions {
  codec: Pick<TokenCodec, 'verifySigned'>;
  callerFingerprints: CallerFingerprints;
  networkOf: NetworkOf;
}

/** The origin of a login, for the limits on guessing. It grants the caller no access. */
export function makeGuessOriginOf({ codec, callerFingerprints, networkOf }: GuessOriginOptions) {
  return async function guessOriginOf(request: FastifyRequest): Promise<GuessOrigin> {
    return {
      fingerprints: callerFingerprints(request),
      token: await readToken(codec, request),
      network: networkOf(request),
    };
  };
}

export type GuessOriginOf = ReturnType<typeof makeGuessOriginOf>;

/**
 * The device's earlier token, even if expired or revoked; null if we did not sign it, and in a request that its access
 * token has authenticated already.
 */
async function readToken(
  codec: GuessOriginOptions['codec'],
  request: FastifyRequest,
): Promise<GuessOrigin['token']> {
  const token = bearerTokenOf(request);
  if (token === undefined || request.bearer) return null;
  // A token whose key cannot be read now is no reason to refuse a login.
  const identity = await codec.verifySigned(token, 'refresh', 'llt').catch(ignoreOutage);
  if (typeof identity !== 'object') return null;
  const { userId, tokenId, type, acr } = identity;
  return { userId, tokenId, type, withFactor: acr !== null };
}
