import { sessionExpiry, type Lifetimes, type TokenRecord } from './token-record.ts';

/**
 * Why a token was ended, as its record says: by its owner (also everywhere, or by id), for a superseded refresh token that
 * came back, by a change of the password, by an operator, for the session that was one too many.
 */
export const END_REASONS = ['logout', 'reuse', 'password', 'admin', 'replaced'] as const;
export type EndReason = (typeof END_REASONS)[number];

/** `expired` follows from the record. `unknown`: ended by a release that does not write the reason, or before a backup. */
export const SHOWN_REASONS = [...END_REASONS, 'expired', 'unknown'] as const;
export type ShownReason = (typeof SHOWN_REASONS)[number];

/** For how long owner and operators can see what became of a token, in milliseconds. */
export const ENDED_SHOWN = 30 * 86_400_000;

/** Where a list of them was left. */
export type EndedPosition = Pick<EndedToken, 'endedAt' | 'id'>;

/** Times in milliseconds since 1970. */
export interface EndedToken {
  id: number;
  type: 'refresh' | 'llt';
  name: string;
  createdAt: number;
  lastUsedAt: number | null;
  endedAt: number;
  reason: ShownReason;
}

/**
 * What became of a token, as far as its record knows. A session that had expired before it was revoked stays expired; but
 * a theft is always told, since a record may be behind.
 * @param reason as the record has it: null, or a later release's word that this one does not know.
 * @returns null where it has not ended by `now` (ms).
 */
export function asEnded(
  record: TokenRecord,
  reason: string | null,
  lifetimes: Lifetimes,
  now: number,
): EndedToken | null {
  const { id, name, createdAt, revokedAt, state } = record;
  const isSession = record.type === 'session';
  const expiry = isSession ? sessionExpiry(createdAt, state.latest, lifetimes) : Infinity;
  const token = {
    id,
    type: isSession ? ('refresh' as const) : ('llt' as const),
    name,
    createdAt,
    lastUsedAt: isSession ? Math.floor(state.latest / 1000) : record.lastUsedAt,
  };
  if (revokedAt !== null && (revokedAt <= expiry || reason === 'reuse')) {
    return {
      ...token,
      endedAt: revokedAt,
      reason: END_REASONS.find((known) => known === reason) ?? 'unknown',
    };
  }
  return revokedAt !== null || expiry <= now ? { ...token, endedAt: expiry, reason: 'expired' } : null;
}
