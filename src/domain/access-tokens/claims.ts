import { sessionEnd, type Lifetimes } from '../tokens/token-record.ts';

/** By how many seconds the clocks of replicas, and of others who verify tokens, may differ. */
export const CLOCK_TOLERANCE = 5;

/**
 * The claims of our tokens (RFC 7519; `iss` and `aud` are added by the signer). `sid` is the token record's id, `gen`
 * the generation of the pair and absent on LLTs. Nothing personal.
 */
export interface Claims {
  sub: string;
  sid: number;
  gen?: number;
  jti: string;
  /** Seconds since 1970. */
  iat: number;
  /** Seconds since 1970; absent on LLTs. */
  exp?: number;
}

/** What a verified token says, in the domain's words. */
export interface TokenIdentity {
  userId: number;
  tokenId: number;
  /** 0 on an LLT. */
  generation: number;
}

export type TokenType = 'access' | 'refresh' | 'llt';

/**
 * The claims of both tokens of a pair. They follow from the generation alone, so that a pair that is issued again has
 * equal claims.
 */
export function pairClaims(
  { userId, tokenId, generation }: TokenIdentity,
  createdAt: number,
  lifetimes: Lifetimes,
): { access: Claims; refresh: Claims } {
  const iat = Math.floor(generation / 1_000_000);
  const end = Math.floor(sessionEnd(createdAt, lifetimes) / 1000);
  const base = { sub: String(userId), sid: tokenId, gen: generation, jti: `${tokenId}.${generation}`, iat };
  return {
    access: { ...base, exp: Math.min(iat + lifetimes.accessToken, end) },
    refresh: { ...base, exp: Math.min(iat + lifetimes.refreshToken, end) },
  };
}

/** The claims of a long-lived token. @param createdAt milliseconds since 1970. */
export function longLivedClaims(userId: number, tokenId: number, createdAt: number): Claims {
  return { sub: String(userId), sid: tokenId, jti: String(tokenId), iat: Math.floor(createdAt / 1000) };
}

/**
 * Reads the claims of a token whose signature, type, issuer, audience and expiry have been verified.
 * @returns null when it is not shaped like one of ours.
 */
export function readClaims(
  claims: Partial<Record<keyof Claims, unknown>>,
  type: TokenType,
): TokenIdentity | null {
  const { sub, sid, gen, jti, iat, exp } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || typeof iat !== 'number') return null;
  if (type === 'llt') {
    return gen === undefined && jti === String(sid) ? { userId, tokenId: sid, generation: 0 } : null;
  }
  if (!isId(gen) || jti !== `${sid}.${gen}` || typeof exp !== 'number') return null;
  return { userId, tokenId: sid, generation: gen };
}

function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
