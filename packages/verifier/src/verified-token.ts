import { scopesIn } from './scope.ts';

/** The tokens of users, which are accepted unless the service lists other types. */
export const USERS_TYPES = ['access', 'llt'] as const;
export type UsersType = (typeof USERS_TYPES)[number];

/** What a good token may be: a user's access or long-lived token, or a service's own. */
export type TokenType = UsersType | 'service';
export const TOKEN_TYPES: readonly TokenType[] = [...USERS_TYPES, 'service'];

/** The contents of a good token, of the types that the verifier accepts. Look at `tokenType` if these include `service`. */
export type VerifiedToken<Accepted extends TokenType = UsersType> =
  | ([Extract<Accepted, UsersType>] extends [never] ? never : UserToken)
  | ('service' extends Accepted ? ServiceToken : never);

export interface UserToken {
  userId: number;
  /** Id of the session or long-lived token; revocations name this id. */
  sid: number;
  tokenType: UsersType;
  /** The user's roles: those in an access token, or Latchkey's last answer. A long-lived token holds none. */
  roles: readonly string[];
  /** Whether the user's e-mail address is proved, by the same source as the roles. */
  emailVerified: boolean;
  /** The client that got the token: the one that exchanged it, otherwise `latchkey`. */
  clientId?: string;
  /** The service that acts for the user, if a service has exchanged the token (RFC 8693, section 4.1). */
  act?: Actor;
  claims: TokenClaims;
}

/**
 * The contents of a user's limited token. Only a call that names scopes returns one. It may do what its scopes name and
 * its user's roles allow: users choose the scopes themselves, so a scope grants nothing.
 */
export interface LimitedToken {
  tokenType: 'limited';
  userId: number;
  /** The token's id; revocations name it. */
  sid: number;
  scopes: readonly string[];
  /** The user's roles, as Latchkey last answered. */
  roles: readonly string[];
  /** Whether the user's e-mail address is proved, as Latchkey last answered. */
  emailVerified: boolean;
  claims: LimitedTokenClaims;
}

/** The contents of a token that a service has got for itself. It has no user and no session. */
export interface ServiceToken {
  tokenType: 'service';
  /** The id of the service's client. */
  clientId: string;
  /** The client's roles: those in the token, or Latchkey's answer where it was asked. */
  roles: readonly string[];
  /** Seconds since 1970. */
  expiresAt: number;
  claims: ServiceTokenClaims;
}

/** What a call returns that names scopes, besides what the verifier accepts. */
export type AnyToken = VerifiedToken<TokenType> | LimitedToken;

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
  /** Present if the user's e-mail address was proved when it was issued; absent on long-lived tokens. */
  readonly email_verified?: boolean;
  readonly client_id?: string;
  readonly act?: Actor;
  /** When the session was opened, in seconds since 1970; absent on long-lived tokens, and on tokens of Latchkey 1.0. */
  readonly auth_time?: number;
  /** `mfa` if the session was opened with a second factor, `phr` if with a passkey; otherwise absent. */
  readonly acr?: string;
  /** With which proofs the session was opened (RFC 8176), if `acr` is there. */
  readonly amr?: readonly string[];
}

/** The claims of a service's token. Frozen too. */
export interface ServiceTokenClaims {
  readonly iss: string;
  readonly aud: string | readonly string[];
  /** The client's id, as `client_id`. */
  readonly sub: string;
  readonly client_id: string;
  /** Rises when all tokens of the client end. */
  readonly client_version: number;
  /** Seconds since 1970. */
  readonly iat: number;
  readonly exp: number;
  readonly jti: string;
  readonly roles: readonly string[];
}

/** The claims of a limited token. Frozen too. */
export interface LimitedTokenClaims {
  readonly iss: string;
  /** The audience, followed by `#limited`. */
  readonly aud: string | readonly string[];
  /** The user's id. */
  readonly sub: string;
  readonly sid: number;
  readonly jti: string;
  /** Separated by spaces. */
  readonly scope: string;
  /** Seconds since 1970. */
  readonly iat: number;
  readonly exp: number;
}

/** The `typ` of limited tokens, and what follows the audience in their `aud`. */
export const LIMITED_TYP = 'limited+jwt';
export const LIMITED_AUDIENCE = '#limited';

/** The `typ` of each. */
export const TYPS: Readonly<Record<TokenType, string>> = {
  access: 'at+jwt',
  llt: 'llt+jwt',
  service: 'at+jwt',
};

/** Whether the `typ` header fits one of these token types. */
export function fits(typ: unknown, types: readonly TokenType[]): boolean {
  return types.some((type) => TYPS[type] === typ);
}

/** The token type by the `typ` header, which is one of ours, and the claims. */
export function tokenTypeOf(typ: unknown, payload: object): TokenType {
  if (typ === TYPS.llt) return 'llt';
  return 'client_version' in payload ? 'service' : 'access';
}

/**
 * Reads a payload whose signature, issuer, audience and expiry have been verified.
 * @returns null if its claims are not those of a Latchkey token.
 */
export function readToken(payload: object, tokenType: TokenType): VerifiedToken<TokenType> | null {
  return tokenType === 'service' ? readServiceToken(payload) : readUserToken(payload, tokenType);
}

function readServiceToken(payload: object): ServiceToken | null {
  const claims = payload as Partial<Record<keyof ServiceTokenClaims | 'sid' | 'gen', unknown>>;
  const { sub, client_id: clientId, client_version: version, iat, exp, jti } = claims;
  // A decimal would be a user's id.
  if (typeof clientId !== 'string' || sub !== clientId || /^[0-9]*$/.test(clientId)) return null;
  if (!isVersion(version) || typeof jti !== 'string' || typeof iat !== 'number' || typeof exp !== 'number')
    return null;
  const roles = claims.roles === undefined ? null : readRoles(claims.roles);
  if (!roles || 'sid' in claims || 'gen' in claims) return null;
  const frozen = deepFreeze(claims as unknown as ServiceTokenClaims);
  return { tokenType: 'service', clientId, roles, expiresAt: exp, claims: frozen };
}

function readUserToken(payload: object, tokenType: UsersType): UserToken | null {
  const claims = payload as Partial<Record<keyof TokenClaims, unknown>>;
  const { sub, sid, iat, exp, client_id: clientId, act, auth_time: authTime, acr, amr } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || typeof iat !== 'number') return null;
  // An access token without an expiry would outlive the entry of its revocation.
  if (tokenType === 'access' && typeof exp !== 'number') return null;
  const [roles, emailVerified] = [readRoles(claims.roles), readEmailVerified(claims.email_verified)];
  if (!roles || emailVerified === null || !isOptionalText(clientId) || !isOptionalActor(act)) return null;
  if ((authTime !== undefined && !isId(authTime)) || !isOptionalText(acr) || !readRoles(amr)) return null;
  return {
    userId,
    sid,
    tokenType,
    roles,
    emailVerified,
    ...(clientId !== undefined && { clientId }),
    ...(act !== undefined && { act }),
    claims: deepFreeze(claims as unknown as TokenClaims),
  };
}

/** As `readToken`, for a token whose `typ` is that of limited ones. */
export function readLimitedToken(payload: object): LimitedToken | null {
  const scopes = scopesIn((payload as { scope?: unknown }).scope);
  const token = readUserToken(payload, 'llt');
  // Without an expiry, or with a generation, it is none that Latchkey issues.
  if (!scopes || !token || typeof token.claims.exp !== 'number' || 'gen' in payload) return null;
  const { userId, sid, claims } = token;
  return {
    tokenType: 'limited',
    userId,
    sid,
    scopes,
    roles: [],
    emailVerified: false,
    claims: claims as unknown as LimitedTokenClaims,
  };
}

/** @returns none if they are absent; null if it is not a list of texts. */
export function readRoles(value: unknown): readonly string[] | null {
  if (value === undefined) return [];
  return Array.isArray(value) && value.every((role) => typeof role === 'string') ? value : null;
}

/** @returns false if it is absent, as from Latchkey 1.0; null if it is neither true nor false. */
export function readEmailVerified(value: unknown): boolean | null {
  if (value === undefined) return false;
  return typeof value === 'boolean' ? value : null;
}

export function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** The version of a client. */
export function isVersion(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
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
