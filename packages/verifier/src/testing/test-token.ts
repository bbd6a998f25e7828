import { readScope, type Scope } from '../scope.ts';
import { isId, LIMITED_AUDIENCE, LIMITED_TYP, readRoles, TYPS, type UsersType } from '../verified-token.ts';

/** A user's token. */
export interface TestToken {
  userId: number;
  /** Default: `limited` if it has scopes, else `access`. */
  tokenType?: UsersType | 'limited' | undefined;
  /** The user's roles from then on (default: those the user has, at first none). */
  roles?: readonly string[] | undefined;
  /** Whether the user's e-mail address is proved from then on (default: as before, at first not). */
  emailVerified?: boolean | undefined;
  /** What a limited token may do. */
  scopes?: readonly string[] | undefined;
  /** Of an access token: `mfa` if its session was opened with a second factor, `phr` if with a passkey. */
  acr?: 'mfa' | 'phr' | undefined;
  /** When the session of an access token was opened, in seconds since 1970 (default: now). */
  authTime?: number | undefined;
}

/** A service's own token. */
export interface TestServiceToken {
  tokenType: 'service';
  /** The id of the service's client. */
  clientId: string;
  /** The service's roles from then on (default: those it has, at first none). */
  roles?: readonly string[] | undefined;
}

/** Whose token it is: what holds of all tokens of one user or service. */
export interface Owner {
  roles: readonly string[];
  emailVerified: boolean;
}

/** What Latchkey knows of a token besides. Times in seconds since 1970. */
export interface Issue {
  issuer: string;
  /** Latchkey's AUDIENCE. */
  ownAudience: string;
  audience: string;
  /** The id of the session or token; the version of a service's client. */
  id: number;
  now: number;
  /** Seconds; undefined for the usual lifetime. */
  expiresIn?: number | undefined;
}

export interface Claims {
  readonly iss: string;
  readonly aud: string;
  readonly sub: string;
  readonly jti: string;
  readonly iat: number;
  readonly exp?: number;
  readonly [more: string]: unknown;
}

/** Seconds, as Latchkey's defaults: of access tokens, limited ones and those for one audience. */
export const LIFETIMES = { access: 900, limited: 90 * 86_400, ofAudience: 300 };

const AMR = { mfa: ['pwd', 'otp', 'mfa'], phr: ['pop', 'user', 'mfa'] };

export type TokenKind = UsersType | 'limited' | 'service';

export function kindOf({
  tokenType,
  scopes,
}: {
  tokenType?: TokenKind | undefined;
  scopes?: unknown;
}): TokenKind {
  return tokenType ?? (scopes === undefined ? 'access' : 'limited');
}

export const TYP_OF: Readonly<Record<TokenKind, string>> = { ...TYPS, limited: LIMITED_TYP };

/** The members of each kind of token, besides `tokenType`. */
const MEMBERS: Readonly<Record<TokenKind, readonly string[]>> = {
  access: ['userId', 'roles', 'emailVerified', 'acr', 'authTime'],
  llt: ['userId', 'roles', 'emailVerified'],
  limited: ['userId', 'roles', 'emailVerified', 'scopes'],
  service: ['clientId', 'roles'],
};

/**
 * Tests in JavaScript may pass anything, and a misspelt member would make another token than the test means.
 * @throws TypeError
 */
export function checkTestToken(token: TestToken | TestServiceToken): void {
  const given = token as Partial<Record<keyof TestToken | keyof TestServiceToken, unknown>>;
  const kind = kindOf(given as TestToken);
  if (!Object.hasOwn(MEMBERS, kind)) throw new TypeError('tokenType must be access, llt, limited or service');
  const known = ['tokenType', ...MEMBERS[kind]];
  const unknown = Object.entries(given).find(([name, value]) => value !== undefined && !known.includes(name));
  if (unknown) throw new TypeError(`a token of type ${kind} has no ${unknown[0]}: use ${known.join(', ')}`);
  const { userId, clientId, roles, scopes, acr, authTime, emailVerified } = given;
  if (kind !== 'service' && !isId(userId)) throw new TypeError('userId must be a whole number from 1');
  if (kind === 'service' && !(typeof clientId === 'string' && /[^0-9]/.test(clientId)))
    throw new TypeError('clientId must be a text that is no number, such as lkc_billing');
  if (readRoles(roles) === null) throw new TypeError('roles must be a list of texts');
  if (kind === 'limited') readScope(scopes as Scope);
  if (acr !== undefined && !Object.hasOwn(AMR, acr as string)) throw new TypeError('acr must be mfa or phr');
  if (authTime !== undefined && !isId(authTime))
    throw new TypeError('authTime must be a whole number of seconds since 1970');
  if (emailVerified !== undefined && typeof emailVerified !== 'boolean')
    throw new TypeError('emailVerified must be true or false');
}

/** The claims of a token as Latchkey writes them. */
export function claimsOf(token: TestToken | TestServiceToken, owner: Owner, issue: Issue): Claims {
  const { issuer: iss, audience, ownAudience, id, now: iat, expiresIn } = issue;
  const ends = (usual: number) => ({ iat, exp: iat + (expiresIn ?? usual) });
  if (token.tokenType === 'service') {
    const { clientId } = token;
    return {
      iss,
      aud: audience,
      sub: clientId,
      client_id: clientId,
      client_version: id,
      jti: randomJti(),
      ...ends(LIFETIMES.ofAudience),
      roles: owner.roles,
    };
  }
  const kind = kindOf(token);
  const user = { iss, sub: String(token.userId), sid: id };
  if (kind === 'llt') {
    const end = expiresIn === undefined ? { iat } : ends(expiresIn);
    return { ...user, aud: audience, jti: String(id), ...end };
  }
  if (kind === 'limited') {
    const scope = (token.scopes ?? []).join(' ');
    return { ...user, aud: audience + LIMITED_AUDIENCE, jti: String(id), scope, ...ends(LIFETIMES.limited) };
  }
  const gen = iat * 1_000_000;
  const isOwn = audience === ownAudience;
  return {
    ...user,
    aud: audience,
    gen,
    jti: isOwn ? `${id}.${gen}` : randomJti(),
    // The user's own client asked for it.
    client_id: 'latchkey',
    ...ends(isOwn ? LIFETIMES.access : LIFETIMES.ofAudience),
    ...((owner.roles.length > 0 || !isOwn) && { roles: owner.roles }),
    ...(owner.emailVerified && { email_verified: true }),
    auth_time: token.authTime ?? iat,
    ...(token.acr && { acr: token.acr, amr: AMR[token.acr] }),
  };
}

/** 128 random bits, in 22 characters of base64url. */
export function randomJti(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
}
