import type { SessionState } from './session-state.ts';

/** What a limited token is good for. */
export interface TokenLimits {
  /** At least one; none is left once the account is deleted. */
  scopes: readonly string[];
  /** AUDIENCE or a registered one. */
  audience: string;
}

/** The durable record behind a session or a long-lived token (LLT); one sequence of ids for both. */
export interface TokenRecord {
  id: number;
  userId: number;
  type: 'session' | 'llt';
  /** The device, as the owner's list shows it. */
  name: string;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Milliseconds since 1970, and null before the first use. */
  lastUsedAt: number | null;
  /** Milliseconds since 1970, and null while the token is good. */
  revokedAt: number | null;
  /** When an LLT expires, in milliseconds since 1970; null for never, and on a session, whose state determines it. */
  expiresAt: number | null;
  /** The id of the session that created an LLT; null on a session, and if it was not recorded. */
  createdBy: number | null;
  /** Of a limited token, which is an LLT by its type; null on any other LLT and on a session. */
  limited: TokenLimits | null;
  /** The rotation state at the last write to the record; all zero on an LLT. */
  state: SessionState;
}
