import type { Caller } from '../principal.ts';
import type { Audit, AuditLimit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { expiredError, type Clock } from '../clock.ts';
import { AuthError, type FieldError, type FieldProblem } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import type { Budget } from '../limits/budget.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import type { TokenStore } from '../tokens/ports.ts';
import type { TokenLimits } from '../tokens/token-record.ts';
import { putCreated } from '../tokens/put-created.ts';
import { longLivedExpiry } from '../tokens/claims.ts';
import type { RegisteredServices } from '../services/authenticate.ts';
import { initialState } from '../sessions/rotation.ts';
import { isAudience } from '../audience.ts';
import { parseScopes } from '../scopes.ts';
import { parseDevice } from '../users/device-name.ts';

interface CreateLongLivedPorts {
  tokens: Pick<TokenStore, 'addLongLived'>;
  services: Pick<RegisteredServices, 'hasAudience'>;
  tokenStates: Pick<TokenStateStore, 'preparePut' | 'put'>;
  /** RATE_LIMIT_LLT and RATE_LIMIT_LLT_NETWORK. */
  budget: Budget;
  /** MAX_LLT_PER_USER. Limited tokens count too. */
  maxTokens: number;
  /** LLT_ENABLED. */
  enabled: boolean;
  /** LIMITED_TOKENS_ENABLED. */
  limitedEnabled: boolean;
  /** LLT_MAX_AGE in seconds; 0 for tokens that do not expire. */
  maxAge: number;
  /** LIMITED_TOKEN_MAX_AGE in seconds. */
  limitedMaxAge: number;
  /** AUDIENCE. */
  ownAudience: string;
  /** LLT_LOGIN_MAX_AGE in seconds; 0 for any. */
  loginMaxAge: number;
  clock: Clock;
  audit: Audit;
  auditLimit: AuditLimit;
}

/** The shortest lifetime of a limited token, and the usual one, in seconds. */
export const LIMITED_MIN_AGE = 60;
const LIMITED_AGE = 90 * 86_400;

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

/** What a user asks for. */
export interface LimitedRequest {
  name: string;
  scopes: unknown;
  /** In seconds; undefined for the usual lifetime. */
  expiresIn: number | undefined;
  /** Undefined for AUDIENCE. */
  audience: string | undefined;
}

export type LimitedGrant = LongLivedGrant & TokenLimits & { expiresAt: number };

/** A token to create, once all that was asked for is checked. */
interface Checked {
  name: string;
  /** The key that will sign it. It is recorded so that the key is not retired before the token ends. */
  kid: string;
  /** In seconds; 0 for never. */
  maxAge: number;
  limited: TokenLimits | null;
}

/**
 * The two requests that create a token for a named device or program. Each throws AuthError `llt_disabled`,
 * `token_not_allowed` (the caller presents an LLT), `login_too_old` (by LLT_LOGIN_MAX_AGE, or the account has a second
 * factor and the session was opened without one), `validation_failed`, `rate_limited`,
 * `too_many_tokens`, `unavailable`, `invalid_token` (the caller's session has ended meanwhile, or its user was disabled)
 */
export function makeCreateLongLived(ports: CreateLongLivedPorts) {
  const { tokens, tokenStates, services, maxTokens, clock, audit, auditLimit } = ports;

  async function create(caller: Caller, token: Checked, from: Sourced): Promise<LongLivedGrant> {
    const { user, tokenId: sessionId, generation, acr } = caller;
    const { name, kid, maxAge, limited } = token;
    // Fails here if the fast store is down, before anything is written.
    const asOf = await tokenStates.preparePut(user.id);
    // Its expiry would be as wrong as the clock.
    if (maxAge > 0 && !clock.isTrusted()) throw new AuthError('unavailable');
    const createdAt = clock.now();
    const expiresAt = longLivedExpiry(createdAt, maxAge);
    const createdBy = { sessionId, withFactor: acr !== null, generation };
    const added = { name, createdAt, kid, expiresAt, limited, createdBy };
    const tokenId = await tokens.addLongLived(user.id, added, maxTokens);
    if (tokenId === null) {
      const reached = { limit: 'llt', userId: user.id, windowSeconds: LIMIT_EVENT_WINDOW } as const;
      auditLimit(`llt:${user.id}`, { event: 'limit.reached', ...reached }, from);
      throw new AuthError('too_many_tokens');
    }

    const record = { id: tokenId, userId: user.id, type: 'llt' as const, name, createdAt };
    // The caller's user comes from the fast store, which may be behind the record.
    // Stryker disable next-line StringLiteral: only a refresh compares clients, and a long-lived token has none
    await putCreated(tokenStates, { ...record, state: initialState(0, '') }, null, asOf);
    const created = { userId: user.id, tokenId, by: sessionId };
    if (limited) audit({ event: 'limited.created', ...created, ...auditedLimits(limited) }, from);
    else audit({ event: 'llt.created', ...created }, from);
    return { userId: user.id, tokenId, createdAt, expiresAt };
  }

  /** Only a login opens a session, so the session's age is the login's. */
  function refuse({ createdAt, type }: Caller, enabled: boolean): void {
    const { loginMaxAge } = ports;
    // A leaked LLT must not outlive its own deletion, so it may not make another.
    if (type !== 'access') throw new AuthError('token_not_allowed');
    if (!enabled) throw new AuthError('llt_disabled');
    if (loginMaxAge > 0 && clock.now() - createdAt > loginMaxAge * 1000)
      throw expiredError(clock, 'login_too_old');
  }

  const withinBudget = <Grant>(
    caller: Caller,
    { from, network }: LongLivedOrigin,
    work: () => Promise<Grant>,
  ) => ports.budget({ userId: caller.user.id, network }, from, work);

  /** A session with LLT_MAX_AGE may not make a token that lives longer by another name. */
  function lifetimeOf(expiresIn: number | undefined): { maxAge: number; errors: FieldError[] } {
    const max = Math.min(ports.limitedMaxAge, ports.maxAge || Infinity);
    const maxAge = expiresIn ?? Math.min(LIMITED_AGE, max);
    if (expiresIn === undefined || (expiresIn >= LIMITED_MIN_AGE && expiresIn <= max))
      return { maxAge, errors: [] };
    const problem: FieldProblem =
      max >= LIMITED_MIN_AGE
        ? { code: 'out_of_range', message: `must be from ${LIMITED_MIN_AGE} to ${max} seconds` }
        : { code: 'not_allowed', message: `must be missing: no token lives longer than ${max} seconds here` };
    return { maxAge, errors: [{ path: '/expires_in', ...problem }] };
  }

  /** @throws AuthError `invalid_target`, `unavailable` */
  async function targetOf(audience = ports.ownAudience): Promise<string> {
    const isKnown =
      audience === ports.ownAudience || (isAudience(audience) && (await services.hasAudience(audience)));
    if (!isKnown) throw new AuthError('invalid_target');
    return audience;
  }

  async function createLongLived(
    caller: Caller,
    device: string,
    kid: string,
    origin: LongLivedOrigin,
  ): Promise<LongLivedGrant> {
    refuse(caller, ports.enabled);
    const name = parseDevice(device);
    if (!name.ok) throw invalid([fieldError('/device', name)]);
    const token = { name: name.value, kid, maxAge: ports.maxAge, limited: null };
    return withinBudget(caller, origin, () => create(caller, token, origin.from));
  }

  /** @throws also AuthError `invalid_target` */
  async function createLimited(
    caller: Caller,
    asked: LimitedRequest,
    kid: string,
    origin: LongLivedOrigin,
  ): Promise<LimitedGrant> {
    refuse(caller, ports.limitedEnabled);
    const [name, scopes] = [parseDevice(asked.name), parseScopes(asked.scopes)];
    const { maxAge, errors } = lifetimeOf(asked.expiresIn);
    if (!name.ok) errors.unshift(fieldError('/name', name));
    if (!scopes.ok) errors.push(fieldError('/scopes', scopes));
    // Stryker disable next-line ConditionalExpression,LogicalOperator: `errors` has both, which the types cannot know
    if (!name.ok || !scopes.ok || errors.length > 0) throw invalid(errors);
    const limited = { scopes: scopes.value, audience: await targetOf(asked.audience) };
    const token = { name: name.value, kid, maxAge, limited };
    const grant = await withinBudget(caller, origin, () => create(caller, token, origin.from));
    return { ...grant, ...limited, expiresAt: Number(grant.expiresAt) };
  }

  /** Their scopes as the token holds them, and the audience if it is not AUDIENCE. */
  function auditedLimits({ scopes, audience }: TokenLimits) {
    return { scopes: scopes.join(' '), ...(audience !== ports.ownAudience && { audience }) };
  }

  return { createLongLived, createLimited };
}

function invalid(errors: FieldError[]): AuthError {
  return new AuthError('validation_failed', { errors });
}

type Creations = ReturnType<typeof makeCreateLongLived>;
export type CreateLongLived = Creations['createLongLived'];
export type CreateLimited = Creations['createLimited'];
