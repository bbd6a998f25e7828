import { LIMITED } from '../audience.ts';
import { hasPassed } from '../clock.ts';
import type { Acr, LoginProof, ServiceBearer, TokenIdentity, TokenKey } from '../principal.ts';
import { scopesIn } from '../scopes.ts';
import { isServiceId } from '../services/secret.ts';
import type { User } from '../user.ts';
import type { TokenLimits } from './token-record.ts';

/**
 * When a new long-lived token expires, rounded to the second like its `exp`. Milliseconds since 1970; null for never.
 */
export function longLivedExpiry(createdAt: number, maxAge: number): number | null {
  return maxAge === 0 ? null : (Math.floor(createdAt / 1000) + maxAge) * 1000;
}

/** Lifetimes in seconds, from the configuration. */
export interface Lifetimes {
  accessToken: number;
  refreshToken: number;
  /** Age at which a session ends even if it is refreshed; 0 for none. */
  session: number;
}

/** @param config the settings of these names, in seconds. */
export function lifetimesOf(config: {
  ACCESS_TOKEN_TTL: number;
  REFRESH_TOKEN_TTL: number;
  SESSION_MAX_AGE: number;
}): Lifetimes {
  return {
    accessToken: config.ACCESS_TOKEN_TTL,
    refreshToken: config.REFRESH_TOKEN_TTL,
    session: config.SESSION_MAX_AGE,
  };
}

/** When the session's newest refresh token expires, in milliseconds since 1970. */
export function sessionExpiry(createdAt: number, latest: number, lifetimes: Lifetimes): number {
  const expiry = (Math.floor(latest / 1_000_000) + lifetimes.refreshToken) * 1000;
  return Math.min(expiry, sessionEnd(createdAt, lifetimes));
}

/** By how many seconds a record may be behind its session: write-behind may have lost the last uses. */
const MARGIN = 86_400;

/**
 * If a session's record shows no use since this time, in microseconds, the session has expired. The margin for a record
 * that is behind is another lifetime, or a day if that is longer.
 * @param now milliseconds since 1970.
 */
export function usedSince(now: number, { refreshToken }: Lifetimes): number {
  return (now - (refreshToken + Math.max(refreshToken, MARGIN)) * 1000) * 1000;
}

/** Whether a session has expired even if its record is as far behind as `usedSince` allows for. */
export function isLongExpired(createdAt: number, latest: number, now: number, lifetimes: Lifetimes): boolean {
  return latest <= usedSince(now, lifetimes) || sessionEnd(createdAt, lifetimes) + MARGIN * 1000 < now;
}

/** When the session ends even if it is refreshed, in milliseconds since 1970; Infinity for never. */
export function sessionEnd(createdAt: number, lifetimes: Lifetimes): number {
  return lifetimes.session === 0 ? Infinity : createdAt + lifetimes.session * 1000;
}

/**
 * The claims of our tokens (RFC 7519; `iss` and `aud` are added by the signer). `sid` is the token record's id, `gen`
 * the generation of the pair, absent on LLTs. They hold no personal data. `roles` and `email_verified` are as of the time
 * of issue; absent if there are none, on refresh tokens, and on LLTs and limited tokens. The last three say how the session
 * was opened; a refresh token holds `amr` alone, and LLTs and limited tokens hold none.
 */
export interface Claims {
  sub: string;
  sid: number;
  gen?: number;
  jti: string;
  /** Seconds since 1970. */
  iat: number;
  /** Seconds since 1970; absent on LLTs that do not expire. */
  exp?: number;
  roles?: readonly string[];
  /** Present if the user's e-mail address is proved. */
  email_verified?: true;
  /** Seconds since 1970; absent on tokens of 1.0.0. */
  auth_time?: number;
  /** Present if the session was opened with a second factor, as is `amr`. */
  acr?: Acr;
  /** RFC 8176. */
  amr?: (typeof AMR)[Acr];
}

/**
 * The `amr` of each `acr`: a code or a recovery code after the password, and a passkey whose user was
 * verified.
 */
export const AMR = { mfa: ['pwd', 'otp', 'mfa'], phr: ['pop', 'user', 'mfa'] } as const satisfies Record<
  Acr,
  readonly string[]
>;

/** The identity in a presented token whose signature, type, issuer and audience are verified, with its expiry. */
export interface PresentedIdentity extends TokenIdentity, LoginProof {
  /** The claim `exp`, in seconds since 1970; null on a token that does not expire. */
  expiresAt: number | null;
}

export type TokenType = 'access' | 'refresh' | 'llt' | 'limited';

/** A user's token that is presented: one of ours, or one that was exchanged for an audience. */
export type PresentedType = TokenType | 'exchanged';

/** By its record, a limited token is an LLT. */
export function isLongLived(type: PresentedType): type is 'llt' | 'limited' {
  return type === 'llt' || type === 'limited';
}

/**
 * RFC 9068, section 2.2, asks for the client that a token was issued to. Users sign in to Latchkey itself, so all their
 * tokens share this id. User ids are numbers, so it cannot be mistaken for one.
 */
export const CLIENT_ID = 'latchkey';

/** The claims of a limited token. The signer adds `iss` only. Without `roles`: it is not asked what its user may do. */
export interface LimitedClaims extends Claims {
  exp: number;
  /** An audience followed by LIMITED. */
  aud: string;
  /** RFC 8693, section 4.2: separated by spaces. */
  scope: string;
}

/** The claims of a token for one audience. The signer adds `iss` only. Its `jti` differs in form from a pair's. */
export interface ExchangedClaims extends Claims {
  gen: number;
  exp: number;
  aud: string;
  /** The service that asked for it; CLIENT_ID if the user did. */
  client_id: string;
  /** RFC 8693, section 4.1: the service that acts for the user. */
  act?: { sub: string };
  roles: readonly string[];
}

/**
 * The claims of a service token. The signer adds `iss` only. It has the header of an access token (RFC 9068), and no
 * other token has `client_version`.
 */
export interface ServiceClaims {
  /** The client's id. */
  sub: string;
  client_id: string;
  client_version: number;
  jti: string;
  iat: number;
  exp: number;
  aud: string;
  roles: readonly string[];
}

/**
 * The claims of both tokens of a pair. Its session and its generation determine them, so that a pair that is issued
 * again has the same claims, except what they say of the user.
 */
export function pairClaims(
  { userId, tokenId, generation, acr }: TokenIdentity & Pick<LoginProof, 'acr'>,
  createdAt: number,
  lifetimes: Lifetimes,
  { roles, emailVerified }: Pick<User, 'roles' | 'emailVerified'>,
): { access: Claims; refresh: Claims } {
  const iat = Math.floor(generation / 1_000_000);
  const end = Math.floor(sessionEnd(createdAt, lifetimes) / 1000);
  const sub = String(userId);
  const jti = `${tokenId}.${generation}`;
  const exp = Math.min(iat + lifetimes.accessToken, end);
  // In full: a spread of these numbers takes V8 five times as long.
  const access: Claims = {
    sub,
    sid: tokenId,
    gen: generation,
    jti,
    iat,
    exp,
    auth_time: Math.floor(createdAt / 1000),
  };
  const refresh: Claims = {
    sub,
    sid: tokenId,
    gen: generation,
    jti,
    iat,
    exp: Math.min(iat + lifetimes.refreshToken, end),
  };
  if (roles.length > 0) access.roles = roles;
  if (emailVerified) access.email_verified = true;
  if (acr !== null) {
    access.acr = acr;
    access.amr = AMR[acr];
    refresh.amr = AMR[acr];
  }
  return { access, refresh };
}

/** The claims of an exchanged token that say how its session was opened: those of the token it was exchanged for. */
export function proofClaims({ acr, authTime }: LoginProof): Pick<Claims, 'auth_time' | 'acr' | 'amr'> {
  return {
    ...(authTime !== null && { auth_time: authTime }),
    ...(acr !== null && { acr, amr: AMR[acr] }),
  };
}

/**
 * The claims of a long-lived token. Times in milliseconds since 1970.
 * @param expiresAt null for never.
 */
export function longLivedClaims(
  userId: number,
  tokenId: number,
  createdAt: number,
  expiresAt: number | null,
): Claims {
  const claims = {
    sub: String(userId),
    sid: tokenId,
    jti: String(tokenId),
    iat: Math.floor(createdAt / 1000),
  };
  return expiresAt === null ? claims : { ...claims, exp: Math.floor(expiresAt / 1000) };
}

/**
 * The claims of a limited token, which are otherwise those of a long-lived one. Times in milliseconds since 1970.
 */
export function limitedClaims({
  userId,
  tokenId,
  createdAt,
  expiresAt,
  scopes,
  audience,
}: TokenKey & TokenLimits & { createdAt: number; expiresAt: number }): LimitedClaims {
  return {
    ...longLivedClaims(userId, tokenId, createdAt, expiresAt),
    exp: Math.floor(expiresAt / 1000),
    aud: `${audience}${LIMITED}`,
    scope: scopes.join(' '),
  };
}

/** What the claims of a limited token let it do. @returns null if they do not have the form of our claims. */
export function readLimits({ aud, scope }: { aud?: unknown; scope?: unknown }): TokenLimits | null {
  const scopes = scopesIn(scope, ' ');
  if (!scopes || typeof aud !== 'string' || !aud.endsWith(LIMITED)) return null;
  const audience = aud.slice(0, -LIMITED.length);
  return audience.endsWith(LIMITED) ? null : { scopes, audience };
}

/**
 * Reads the claims of a token whose signature, type, issuer, audience and expiry have been verified.
 * @returns null if they do not have the form of our claims.
 */
export function readClaims(
  claims: Partial<Record<keyof Claims, unknown>>,
  type: PresentedType,
): PresentedIdentity | null {
  const { sub, sid, gen, jti, iat, exp } = claims;
  if (typeof sub !== 'string' || !/^[1-9][0-9]{0,15}$/.test(sub)) return null;
  const userId = Number(sub);
  if (!isId(userId) || !isId(sid) || !isId(iat)) return null;
  // Refuse numbers beyond 2^53: no clock reaches such an expiry.
  if (exp !== undefined && !isId(exp)) return null;
  const proof = readProof(claims, type);
  if (!proof) return null;
  const { acr, authTime } = proof;
  if (isLongLived(type)) {
    if (gen !== undefined || jti !== String(sid)) return null;
    if (type === 'limited' && exp === undefined) return null;
    return { userId, tokenId: sid, generation: 0, expiresAt: exp ?? null, acr, authTime };
  }
  if (!isId(gen) || exp === undefined) return null;
  const isOwnJti = type === 'exchanged' ? isRandomJti(jti) : jti === `${sid}.${gen}`;
  if (!isOwnJti) return null;
  return { userId, tokenId: sid, generation: gen, expiresAt: exp, acr, authTime };
}

const NO_PROOF: LoginProof = { acr: null, authTime: null };

/**
 * A token of 1.0.0 has none of these claims. A later release may write another `acr` and other methods beside `mfa`; its
 * tokens are read as `mfa`, so that a rollback from it signs nobody out.
 * @returns null if a claim is not one of this type, or `acr` and `amr` disagree.
 */
function readProof(
  { auth_time: authTime, acr, amr }: Partial<Record<keyof Claims, unknown>>,
  type: PresentedType,
): LoginProof | null {
  if (authTime === undefined && acr === undefined && amr === undefined) return NO_PROOF;
  if (amr !== undefined && !holdsMfa(amr)) return null;
  if (type === 'refresh')
    return acr === undefined && authTime === undefined ? { acr: acrOf(amr), authTime: null } : null;
  if (isLongLived(type) || !isId(authTime)) return null;
  if (amr === undefined) return acr === undefined ? { acr: null, authTime } : null;
  if (typeof acr !== 'string' || acr === '') return null;
  return { acr: acr === 'phr' ? acr : 'mfa', authTime };
}

function holdsMfa(amr: unknown): amr is string[] {
  return Array.isArray(amr) && amr.includes('mfa') && amr.every((method) => typeof method === 'string');
}

const PASSKEY_METHODS = AMR.phr.join();

/**
 * What the methods of a refresh token prove, which has no `acr`: only our own ones are known to mean a
 * passkey.
 */
function acrOf(amr: string[] | undefined): Acr | null {
  if (amr === undefined) return null;
  return amr.join() === PASSKEY_METHODS ? 'phr' : 'mfa';
}

/** Reads the claims of a service token, as `readClaims` does. */
export function readServiceClaims(
  claims: Partial<Record<keyof ServiceClaims | keyof Claims, unknown>>,
): ServiceBearer | null {
  const { sub, client_id: serviceId, client_version: version, sid, gen, jti, iat, exp, aud } = claims;
  if (
    typeof sub !== 'string' ||
    !isServiceId(sub) ||
    serviceId !== sub ||
    sid !== undefined ||
    gen !== undefined
  )
    return null;
  if (!isId(version) || !isId(iat) || !isId(exp) || !isRandomJti(jti) || typeof aud !== 'string') return null;
  return { type: 'service', serviceId: sub, version, audience: aud, expiresAt: exp };
}

/** Random, and so unique. */
export const RANDOM_JTI_BYTES = 16;

/** No pair and no LLT has such a `jti`, so their tokens stay of another kind even if AUDIENCE changes. */
function isRandomJti(jti: unknown): boolean {
  return typeof jti === 'string' && /^[A-Za-z0-9_-]{22}$/.test(jti);
}

/** Whether a token has expired, by the same rule as in signature verification. @param now ms since 1970. */
export function hasExpired({ expiresAt }: Pick<PresentedIdentity, 'expiresAt'>, now: number): boolean {
  return expiresAt !== null && hasPassed(expiresAt, now);
}

/**
 * Whether a refresh token is older than the present REFRESH_TOKEN_TTL. It may have been issued under a longer one, but
 * sessions that are unused for longer than the present one count as expired and are not ended again.
 * @param now milliseconds since 1970.
 */
export function isTooOld(
  token: ServiceBearer | { type: PresentedType; generation: number },
  now: number,
  { refreshToken }: Pick<Lifetimes, 'refreshToken'>,
): boolean {
  return token.type === 'refresh' && hasPassed(Math.floor(token.generation / 1e6) + refreshToken, now);
}

function isId(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}
