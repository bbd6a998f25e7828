/** The state of a session. It does not grow with the number of refreshes. */
export interface SessionState {
  /** The newest generation issued. */
  latest: number;
  /** The generation whose refresh token `latest` was issued for; 0 after login. */
  parent: number;
  /** The oldest generation issued since `parent`; equal to `latest` unless answers were lost. */
  first: number;
  /** A token of the latest pair has been used, so its client holds it. */
  confirmed: boolean;
  /** Keyed hash of the client that requested the latest pair; empty if its address is unknown. */
  caller: string;
}

/** A refresh token as it is presented. All times in microseconds. */
export interface Presentation {
  generation: number;
  /** The state store's clock. */
  now: number;
  /** Time since the service received the complete request, by the replica's monotonic clock. */
  elapsed: number;
  /** REFRESH_RETRY_WINDOW; 0 turns it off. */
  window: number;
  /** Keyed hash of the client; empty if its address is unknown, and then it matches no other client. */
  caller: string;
}

/** The row of the rotation table that issued a pair (docs/rotation.md). */
export type RotationRow = 'current' | 'ahead' | 'gap' | 'unconfirmed';

export type RotationOutcome =
  /** A new pair was issued, in a normal refresh or after a lost answer or lost state. */
  | { outcome: 'issued'; row: RotationRow; state: SessionState }
  /** The latest pair is issued again with the same claims; nothing changed. */
  | { outcome: 'repeated'; state: SessionState }
  /** Too late or from another client, but too soon to be theft: nothing changed; retry after `retryAfter` µs. */
  | { outcome: 'held'; retryAfter: number }
  /** A clock is wrong, or the request took too long: nothing changed. */
  | { outcome: 'refused'; reason: 'clock' | 'stale' }
  /** A superseded token was presented again: theft. */
  | { outcome: 'reused' };

export type AccessCheck = { outcome: 'good'; state: SessionState } | { outcome: 'superseded' };
