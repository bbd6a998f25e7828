/** The contents of a good token. */
export interface VerifiedToken {
  userId: number;
  /** Id of the session or long-lived token; revocations name this id. */
  sid: number;
  tokenType: 'access' | 'llt';
  /** The user's roles: those in an access token, or Latchkey's last answer. A long-lived token holds none. */
  roles: readonly string[];
  claims: TokenClaims;
}

/** Claims of RFC 9068, and two of Latchkey's own: `sid`, and `gen` (the pair's generation; not on long-lived tokens). */
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
  /** Seconds since 1970; absent on long-lived tokens that do not expire. */
  exp?: number;
  /** The user's roles when it was issued; absent if there were none, and on long-lived tokens. */
  roles?: string[];
}

const TYPES: Readonly<Record<string, VerifiedToken['tokenType']>> = { 'at+jwt': 'access', 'llt+jwt': 'llt' };

/** The token type by the `typ` header; null for refresh tokens and for tokens of other issuers. */
export function tokenTypeOf(typ: unknown): VerifiedToken['tokenType'] | null {
  return typeof typ === 'string' && Object.hasOwn(TYPES, typ) ? (TYPES[typ] ?? null) : null;
}

/**
 * Reads a payload whose signature, issuer, audience and expiry have been verified.
 * @returns null if its claims are not those of a Latchkey token.
 */
export function readToken(payload: object, tokenType: VerifiedToken['tokenType']): VerifiedToken | null {
  const claims = payload as Partial<Record<keyof TokenClaims, unknown>>;
  const { sub, sid, iat, exp } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || typeof iat !== 'number') return null;
  // An access token without an expiry would outlive the entry of its revocation.
  if (tokenType === 'access' && typeof exp !== 'number') return null;
  const roles = readRoles(claims.roles);
  if (!roles) return null;
  return { userId, sid, tokenType, roles, claims: claims as TokenClaims };
}

/** @returns none if they are absent; null if it is not a list of roles. */
export function readRoles(value: unknown): readonly string[] | null {
  if (value === undefined) return [];
  return Array.isArray(value) && value.every((role) => typeof role === 'string') ? value : null;
}

export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
