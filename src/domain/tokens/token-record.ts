import type { SessionState } from '../sessions/rotation.ts';

/** The durable record behind a session or a long-lived token (LLT); one sequence of ids for both. */
export interface TokenRecord {
  id: number;
  userId: number;
  type: 'session' | 'llt';
  /** What the owner's list shows: the device. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Milliseconds since 1970, and null before the first use. */
  lastUsedAt: number | null;
  /** Milliseconds since 1970, and null while the token is good. */
  revokedAt: number | null;
  /** Rotation's state as of the last write to the record; all zero on an LLT. */
  state: SessionState;
}

/** Lifetimes in seconds, from the configuration. */
export interface Lifetimes {
  accessToken: number;
  refreshToken: number;
  /** Absolute age of a session after which it ends however often it is refreshed; 0 for none. */
  session: number;
}

/** When the session's newest refresh token expires, in milliseconds since 1970. */
export function sessionExpiry(createdAt: number, latest: number, lifetimes: Lifetimes): number {
  const expiry = (Math.floor(latest / 1_000_000) + lifetimes.refreshToken) * 1000;
  return Math.min(expiry, sessionEnd(createdAt, lifetimes));
}

/** A record that is behind its session by less than this, in seconds, does not make anybody overlook it. */
const MARGIN = 86_400;

/**
 * A session that its record does not show as used since then, in microseconds, is over. The record may be behind by what
 * write-behind has lost: hence another lifetime, or a day.
 * @param now milliseconds since 1970.
 */
export function usedSince(now: number, { refreshToken }: Lifetimes): number {
  return (now - (refreshToken + Math.max(refreshToken, MARGIN)) * 1000) * 1000;
}

/** When the session ends however often it is refreshed, in milliseconds since 1970; Infinity for never. */
export function sessionEnd(createdAt: number, lifetimes: Lifetimes): number {
  return lifetimes.session === 0 ? Infinity : createdAt + lifetimes.session * 1000;
}
