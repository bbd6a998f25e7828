import type { User } from './user.ts';

/** Names a token record and its owner. */
export interface TokenKey {
  userId: number;
  tokenId: number;
}

/** The identity in a verified token. */
export interface TokenIdentity extends TokenKey {
  /** 0 on an LLT and on a limited token. */
  generation: number;
}

/**
 * What proved the login of a session, besides a password: `mfa` is a second factor, and `phr` is a passkey,
 * which no page of another origin can pass on and which counts as `mfa` too. null for a password alone.
 */
export const ACRS = ['phr', 'mfa'] as const;
export type Acr = (typeof ACRS)[number];

/** What a token says of the login that opened its session. No store holds it. */
export interface LoginProof {
  acr: Acr | null;
  /**
   * When the session was opened, in seconds since 1970; null if the token does not say: an LLT, a limited token, a
   * refresh token, and any token of 1.0.0.
   */
  authTime: number | null;
}

/** What may be demanded of that login (RFC 9470); null for nothing. */
export interface Demand {
  /** It used a second factor; with `phr`, a passkey. */
  acr: Acr | null;
  /** It is at most so many seconds ago. */
  maxAge: number | null;
}

/**
 * A token whose signature, type, issuer, audience and expiry are verified. Its session may have ended. A limited token
 * is one only where a route names that kind.
 */
export interface Bearer extends TokenIdentity, LoginProof {
  type: 'access' | 'llt' | 'limited';
}

/** A token for one audience, verified as a `Bearer` is. It is bound to its session, and to none of its pairs. */
export interface ExchangedBearer extends TokenIdentity, LoginProof {
  type: 'exchanged';
}

/** A token of a service, verified as a `Bearer` is. It is good only while its client has this version. */
export interface ServiceBearer {
  type: 'service';
  serviceId: string;
  version: number;
  /** `aud`: a registered audience, or ISSUER. */
  audience: string;
  /** The claim `exp`, in seconds since 1970. */
  expiresAt: number;
}

/** The service of a service token that was good when it was checked. */
export interface ServicePrincipal {
  type: 'service';
  serviceId: string;
  /** Its present ones. */
  roles: readonly string[];
}

/** The owner of a bearer token that was good when it was checked. Only `makeVerify` makes one. */
export interface Principal extends LoginProof {
  user: User;
  /** The token record's id. */
  tokenId: number;
  /** An exchanged token counts as an access token. */
  type: Bearer['type'];
  /** The presented token's; 0 on an LLT and on a limited token. */
  generation: number;
  /** When its session or LLT was created, in milliseconds since 1970. */
  createdAt: number;
}

/**
 * A caller that may make changes: a principal whose token was checked after the whole request had arrived. A client may
 * hold its body back while its session ends, so a principal that was checked before the body may change nothing. Only
 * `app.auth.change` makes one (docs/adr/0006-checked-at-the-effect.md).
 */
export interface Caller extends Principal {
  readonly checkedAfterBody: true;
}

/** A caller as a transaction checks it again. Stores that act for one take this, so that no change forgets the factor. */
export interface CallerKey extends TokenKey {
  /**
   * Whether its session was opened with a second factor: where the account has one, no other session may make the
   * change. null if any session may.
   */
  withFactor: boolean | null;
}
