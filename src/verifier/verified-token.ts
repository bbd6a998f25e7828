/** What a good token says. */
export interface VerifiedToken {
  userId: number;
  /** Of the session or long-lived token: the id by which it is revoked. */
  sid: number;
  tokenType: 'access' | 'llt';
  claims: TokenClaims;
}

/** RFC 9068, and two of Latchkey's own: `sid`, and `gen` (the pair's generation; not on long-lived tokens). */
export interface TokenClaims {
  iss: string;
  aud: string | string[];
  /** The user's id. */
  sub: string;
  sid: number;
  gen?: number;
  jti: string;
  /** Seconds since 1970. */
  iat: number;
  /** Seconds since 1970; not on long-lived tokens. */
  exp?: number;
}

const TYPES: Readonly<Record<string, VerifiedToken['tokenType']>> = { 'at+jwt': 'access', 'llt+jwt': 'llt' };

/** The type that a token's header names; null for a refresh token and for what is none of Latchkey's. */
export function tokenTypeOf(typ: unknown): VerifiedToken['tokenType'] | null {
  return typeof typ === 'string' && Object.hasOwn(TYPES, typ) ? (TYPES[typ] ?? null) : null;
}

/**
 * Reads a payload whose signature, issuer, audience and expiry have been verified.
 * @returns null when it is not shaped like one of Latchkey's.
 */
export function readToken(payload: object, tokenType: VerifiedToken['tokenType']): VerifiedToken | null {
  const claims = payload as Partial<Record<keyof TokenClaims, unknown>>;
  const { sub, sid, iat, exp } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || typeof iat !== 'number') return null;
  // An access token without an end would outlive the memory of its revocation.
  if (tokenType === 'access' && typeof exp !== 'number') return null;
  return { userId, sid, tokenType, claims: claims as TokenClaims };
}

export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
