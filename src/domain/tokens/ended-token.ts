import type { TokenLimits, TokenRecord } from './token-record.ts';
import { isLongExpired, sessionExpiry, type Lifetimes } from './claims.ts';

/**
 * Why a token was ended, by its record. `logout`: by its owner, also everywhere or by id. `reuse`: a superseded refresh
 * token was presented again. `password`: the password was changed. `admin`: by an operator. `replaced`: a new session
 * exceeded the limit.
 */
export const END_REASONS = ['logout', 'reuse', 'password', 'admin', 'replaced'] as const;
export type EndReason = (typeof END_REASONS)[number];

/** `expired` follows from the record. `unknown`: a later release gave a reason that this one does not know. */
// Stryker disable next-line ArrayDeclaration,StringLiteral: docs/openapi.json lists them, and a test compares it
export const SHOWN_REASONS = [...END_REASONS, 'expired', 'unknown'] as const;
export type ShownReason = (typeof SHOWN_REASONS)[number];

/** For how long owners and operators can list an ended token, in milliseconds. */
export const ENDED_SHOWN = 30 * 86_400_000;

/** The last entry of the previous page. */
export type EndedPosition = Pick<EndedToken, 'endedAt' | 'id'>;

/** The order of the list. */
export function newestFirst(one: EndedPosition, other: EndedPosition): number {
  return other.endedAt - one.endedAt || other.id - one.id;
}

/** Times in milliseconds since 1970. */
export interface EndedToken {
  id: number;
  type: 'refresh' | 'llt' | 'limited';
  name: string;
  createdAt: number;
  /** The session that created an LLT, as in TokenRecord. */
  createdBy: number | null;
  limited: TokenLimits | null;
  lastUsedAt: number | null;
  endedAt: number;
  reason: ShownReason;
}

/**
 * How a token ended, by its record. A token that expired before it was revoked counts as expired. The theft of a
 * session is always shown, since the session's record may be behind.
 * @param reason as recorded; null if it is not revoked.
 * @param written the end that `finalEnd` returned before; it counts even if the lifetimes have changed since.
 * @returns null if it has not ended by `now` (ms).
 */
export function asEnded(
  record: TokenRecord,
  reason: string | null,
  lifetimes: Lifetimes,
  now: number,
  written: number | null = null,
): EndedToken | null {
  const { id, name, createdAt, createdBy, limited, revokedAt, state } = record;
  const isSession = record.type === 'session';
  const expiry =
    written ??
    (isSession ? sessionExpiry(createdAt, state.latest, lifetimes) : (record.expiresAt ?? Infinity));
  const token = {
    id,
    type: isSession ? ('refresh' as const) : limited ? ('limited' as const) : ('llt' as const),
    name,
    createdAt,
    createdBy,
    limited,
    lastUsedAt: isSession ? Math.floor(state.latest / 1000) : record.lastUsedAt,
  };
  if (revokedAt !== null && (revokedAt <= expiry || (isSession && reason === 'reuse'))) {
    return {
      ...token,
      endedAt: revokedAt,
      reason: END_REASONS.find((known) => known === reason) ?? 'unknown',
    };
  }
  return revokedAt !== null || expiry <= now ? { ...token, endedAt: expiry, reason: 'expired' } : null;
}

/**
 * When a token ended (ms), if nothing can change that: it is revoked, is an LLT past its expiry, or a session that
 * expired long ago. One that expired lately may still be good: its record may be behind.
 */
export function finalEnd(
  record: TokenRecord,
  reason: string | null,
  lifetimes: Lifetimes,
  now: number,
): number | null {
  const isFinal =
    record.revokedAt !== null ||
    record.type === 'llt' ||
    isLongExpired(record.createdAt, record.state.latest, now, lifetimes);
  return isFinal ? (asEnded(record, reason, lifetimes, now)?.endedAt ?? null) : null;
}
