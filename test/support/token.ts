import type { LoginProof } from '../../src/domain/principal.ts';
import type { Lifetimes } from '../../src/domain/tokens/claims.ts';
import type { SessionConditions } from '../../src/domain/tokens/ports.ts';
import type { TokenRecord } from '../../src/domain/tokens/token-record.ts';
import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import type { User } from '../../src/domain/user.ts';

export const LIFETIMES: Lifetimes = { accessToken: 900, refreshToken: 3600, session: 0 };

/** A login with an account's first password, and room for its session. */
export const ROOM: SessionConditions = {
  limit: 100,
  liveSince: 0,
  createdSince: 0,
  passwordVersion: 0,
  enabledAt: 0,
  proof: null,
  isNewTo: () => false,
};

/** A token whose session was opened without a second factor, and which does not say when. */
export const NO_FACTOR: LoginProof = { acr: null, authTime: null };

export function aUser(overrides: Partial<User> = {}): User {
  return {
    id: 7,
    username: 'ada',
    name: 'Ada Lovelace',
    createdAt: 1_795_000_000_123,
    disabled: false,
    emailVerified: false,
    roles: [],
    ...overrides,
  };
}

/** A session's record with the given state. */
export function aSession(state: SessionState, overrides: Partial<TokenRecord> = {}): TokenRecord {
  return {
    id: 11,
    userId: 7,
    type: 'session',
    name: 'Firefox',
    createdAt: 1_795_000_000_456,
    lastUsedAt: null,
    revokedAt: null,
    expiresAt: null,
    createdBy: null,
    limited: null,
    state,
    ...overrides,
  };
}

/** A long-lived token's record. */
export function aLongLived(overrides: Partial<TokenRecord> = {}): TokenRecord {
  const state = { latest: 0, parent: 0, first: 0, confirmed: false, caller: '' };
  return aSession(state, { id: 12, type: 'llt', name: 'Kitchen tablet', ...overrides });
}
