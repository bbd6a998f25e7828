import type { Caller } from '../principal.ts';
import type { Audit, AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { over, type Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import type { Budget } from '../limits/budget.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { TokenStore } from '../tokens/ports.ts';
import { putCreated } from '../tokens/put-created.ts';
import { longLivedExpiry } from '../tokens/claims.ts';
import { initialState } from '../sessions/rotation.ts';
import { parseDevice } from '../users/device-name.ts';

interface CreateLongLivedPorts {
  tokens: Pick<TokenStore, 'addLongLived'>;
  tokenStates: Pick<TokenStateStore, 'preparePut' | 'put'>;
  /** RATE_LIMIT_LLT and RATE_LIMIT_LLT_NETWORK. */
  budget: Budget;
  /** MAX_LLT_PER_USER. */
  maxTokens: number;
  /** LLT_ENABLED. */
  enabled: boolean;
  /** LLT_MAX_AGE in seconds; 0 for tokens that do not expire. */
  maxAge: number;
  /** LLT_LOGIN_MAX_AGE in seconds; 0 for any. */
  loginMaxAge: number;
  clock: Clock;
  audit: Audit;
  auditLimit: AuditLimit;
}

/** How often the limit of one user may be an event, in seconds: this limit has no window of its own. */
const LIMIT_EVENT_WINDOW = 3600;

export interface LongLivedOrigin {
  from: Sourced;
  /** The /24 or /48 whose creations are counted together; null if they are not counted. */
  network: string | null;
}

export interface LongLivedGrant {
  userId: number;
  tokenId: number;
  /** Milliseconds since 1970. */
  createdAt: number;
  /** Milliseconds since 1970; null for never. */
  expiresAt: number | null;
}

/**
 * Creates a long-lived token for a named device.
 * @param kid the key that will sign it. It is recorded so that the key is not retired before the token ends.
 * @throws AuthError `llt_disabled`, `token_not_allowed` (the caller presents an LLT), `login_too_old`,
 * `validation_failed`, `rate_limited`, `too_many_tokens`, `unavailable`, `invalid_token` (the caller's session has ended meanwhile, or
 * its user was disabled)
 */
export function makeCreateLongLived(ports: CreateLongLivedPorts) {
  const { tokens, tokenStates, maxTokens, maxAge, clock, audit, auditLimit } = ports;

  async function create(caller: Caller, name: string, kid: string, from: Sourced): Promise<LongLivedGrant> {
    const { user, tokenId: sessionId, generation } = caller;
    // Fails here if the fast store is down, before anything is written.
    const asOf = await tokenStates.preparePut(user.id);
    // Its expiry would be as wrong as the clock.
    if (maxAge > 0 && !clock.isTrusted()) throw new AuthError('unavailable');
    const createdAt = clock.now();
    const expiresAt = longLivedExpiry(createdAt, maxAge);
    const createdBy = { sessionId, generation };
    const token = { name, createdAt, kid, expiresAt, createdBy };
    const tokenId = await tokens.addLongLived(user.id, token, maxTokens);
    if (tokenId === null) {
      const reached = { limit: 'llt', userId: user.id, windowSeconds: LIMIT_EVENT_WINDOW } as const;
      auditLimit(`llt:${user.id}`, { event: 'limit.reached', ...reached }, from);
      throw new AuthError('too_many_tokens');
    }

    const record = { id: tokenId, userId: user.id, type: 'llt' as const, name, createdAt };
    // The caller's user comes from the fast store, which may be behind the record.
    // Stryker disable next-line StringLiteral: only a refresh compares clients, and a long-lived token has none
    await putCreated(tokenStates, { ...record, state: initialState(0, '') }, null, asOf);
    audit({ event: 'llt.created', userId: user.id, tokenId, by: sessionId }, from);
    return { userId: user.id, tokenId, createdAt, expiresAt };
  }

  return async function createLongLived(
    caller: Caller,
    device: string,
    kid: string,
    { from, network }: LongLivedOrigin,
  ): Promise<LongLivedGrant> {
    refuse(ports, caller);
    const name = parseDevice(device);
    if (!name.ok) {
      throw new AuthError('validation_failed', { errors: [fieldError('/device', name)] });
    }
    return ports.budget({ userId: caller.user.id, network }, from, () =>
      create(caller, name.value, kid, from),
    );
  };
}

/** Only a password opens a session, so the session's age is the login's. */
function refuse({ enabled, loginMaxAge, clock }: CreateLongLivedPorts, { createdAt, type }: Caller): void {
  // A leaked LLT must not outlive its own deletion, so it may not make another.
  if (type === 'llt') throw new AuthError('token_not_allowed');
  if (!enabled) throw new AuthError('llt_disabled');
  if (loginMaxAge > 0 && clock.now() - createdAt > loginMaxAge * 1000) throw over(clock, 'login_too_old');
}

export type CreateLongLived = ReturnType<typeof makeCreateLongLived>;
