/** The contents of a good token. */
export interface VerifiedToken {
  userId: number;
  /** Id of the session or long-lived token; revocations name this id. */
  sid: number;
  tokenType: 'access' | 'llt';
  /** The user's roles: those in an access token, or Latchkey's last answer. A long-lived token holds none. */
  roles: readonly string[];
  /** The client that got the token: the one that exchanged it, otherwise `latchkey`. */
  clientId?: string;
  /** The service that acts for the user, if a service has exchanged the token (RFC 8693, section 4.1). */
  act?: Actor;
  claims: TokenClaims;
}

export interface Actor {
  readonly sub: string;
}

/**
 * Claims of RFC 9068, and two of Latchkey's own: `sid`, and `gen` (the pair's generation; not on long-lived tokens).
 * Frozen, because the verifier keeps them.
 */
export interface TokenClaims {
  readonly iss: string;
  readonly aud: string | readonly string[];
  /** The user's id. */
  readonly sub: string;
  readonly sid: number;
  readonly gen?: number;
  readonly jti: string;
  /** Seconds since 1970. */
  readonly iat: number;
  /** Seconds since 1970; absent on long-lived tokens that do not expire. */
  readonly exp?: number;
  /** The user's roles when it was issued; absent if there were none, and on long-lived tokens. */
  readonly roles?: readonly string[];
  readonly client_id?: string;
  readonly act?: Actor;
}

const TYPES: Readonly<Record<string, VerifiedToken['tokenType']>> = { 'at+jwt': 'access', 'llt+jwt': 'llt' };

/** The accepted types, for messages. */
export const EXPECTED_TYPES = Object.keys(TYPES).join(' or ');

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
  const { sub, sid, iat, exp, client_id: clientId, act } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || typeof iat !== 'number') return null;
  // An access token without an expiry would outlive the entry of its revocation.
  if (tokenType === 'access' && typeof exp !== 'number') return null;
  const roles = readRoles(claims.roles);
  if (!roles || !isOptionalText(clientId) || !isOptionalActor(act)) return null;
  return {
    ...{ userId, sid, tokenType, roles },
    ...(clientId !== undefined && { clientId }),
    ...(act !== undefined && { act }),
    claims: deepFreeze(claims as unknown as TokenClaims),
  };
}

/** @returns none if they are absent; null if it is not a list of roles. */
export function readRoles(value: unknown): readonly string[] | null {
  if (value === undefined) return [];
  return Array.isArray(value) && value.every((role) => typeof role === 'string') ? value : null;
}

export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

function isOptionalText(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isOptionalActor(value: unknown): value is Actor | undefined {
  if (value === undefined) return true;
  return typeof (Object(value) as { sub?: unknown }).sub === 'string';
}

function deepFreeze<Value extends object>(value: Value): Value {
  for (const each of Object.values(value))
    if (typeof each === 'object' && each !== null) deepFreeze(each as object);
  return Object.freeze(value);
}
