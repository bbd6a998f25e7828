import type {
  FastifyInstance,
  FastifyRequest,
  onRequestAsyncHookHandler,
  preValidationAsyncHookHandler,
} from 'fastify';
import fp from 'fastify-plugin';
import { hasExpired, type PresentedIdentity, type TokenType } from '../../domain/tokens/claims.ts';
import { isInScope } from '../../domain/scopes.ts';
import type { Bearer, Caller, Principal, ServiceBearer } from '../../domain/principal.ts';
import type { ServiceTokens } from '../../domain/access-tokens/service-tokens.ts';
import type { Verify } from '../../domain/access-tokens/verify.ts';
import { expiredError, type Clock } from '../../domain/clock.ts';
import { AuthError } from '../../domain/errors.ts';
import type { TokenRefusal } from '../../domain/refusal-reasons.ts';
import { bearerTokenOf } from '../bearer.ts';
import type { ServiceHooksFor } from './authenticate-service.ts';
import { authenticates } from './budgets.ts';
import type { IdentityOf, TokenCodec } from '../token-codec.ts';
import '../request.ts';

interface AuthenticateOptions {
  codec: TokenCodec;
  verify: Verify;
  serviceTokens: Pick<ServiceTokens, 'verify'>;
  clock: Pick<Clock, 'now' | 'isTrusted'>;
  /** See authenticate-service.ts. */
  service: ServiceHooksFor;
}

/**
 * The hooks of a route that changes something, to be spread into its options. Before the body, only the token's
 * signature is checked: the body may take REQUEST_TIMEOUT to arrive, and the session may end meanwhile. The session is
 * checked once, after the body (docs/adr/0006-checked-at-the-effect.md).
 */
export interface ChangeHooks {
  onRequest: onRequestAsyncHookHandler;
  preValidation: preValidationAsyncHookHandler;
}

/**
 * The scopes that a route demands. They stand in its path, which a proxy's configuration fixes, and are never read from
 * what a proxy may pass on of its client's request.
 * @throws AuthError `not_found`
 */
export type ScopesOf = (request: FastifyRequest) => readonly string[];

type EndsOwnToken = (request: FastifyRequest, bearer: Bearer) => boolean;

declare module 'fastify' {
  interface FastifyInstance {
    /** A route's hooks decide who may call it. A route without any of these is public. */
    auth: {
      /** For routes that only read: an access token or LLT that is good. Sets `bearer` and `principal`. */
      principal: onRequestAsyncHookHandler;
      /**
       * For routes that only read: a token for exactly this audience. Either a user's, exchanged, whose session lives:
       * sets `principal` and `actor`. Or a service's own: sets `callingService`.
       * @param audienceOf null if the request names none: no token is for it.
       */
      forAudience(audienceOf: (request: FastifyRequest) => string | null): onRequestAsyncHookHandler;
      /** As `principal`, and also a limited token that has all the scopes which the route demands. */
      inScope(scopesOf: ScopesOf): onRequestAsyncHookHandler;
      /** As `forAudience`, and also such a limited token for that audience. */
      inScopeForAudience(
        scopesOf: ScopesOf,
        audienceOf: (request: FastifyRequest) => string,
      ): onRequestAsyncHookHandler;
      /** For routes that change something: an access token or LLT that is good. Sets `bearer` and `caller`. */
      change: ChangeHooks;
      /**
       * As `change`, but a caller that ends the presented token needs only its signature (see log-out.ts).
       * @param others also accepted: a limited token, which may end nothing else. Without it, as by all hooks
       * here that demand no scope, a limited token is refused with `insufficient_scope`.
       */
      changeUnless(endsOwnToken: EndsOwnToken, ...others: 'limited'[]): ChangeHooks;
      /**
       * As `change`, but admits a token that has ended if its request already took effect: the answer may have been
       * lost.
       */
      changeOrDone(isDone: (request: FastifyRequest, bearer: Bearer) => Promise<boolean>): ChangeHooks;
      /** A registered service that has the right. Sets `service`. */
      service: ServiceHooksFor;
    };
  }
}

/** @throws AuthError `token_missing`, `invalid_token` */
export async function readBearer<Type extends TokenType>(
  codec: TokenCodec,
  request: FastifyRequest,
  ...types: Type[]
): Promise<IdentityOf<Type>> {
  return present(request, await codec.verify(presentedTokenOf(request), ...types));
}

/** @throws AuthError `invalid_token` */
function present<Found extends PresentedIdentity | ServiceBearer>(
  request: FastifyRequest,
  found: Found | TokenRefusal,
): Found {
  if (typeof found === 'string') throw new AuthError('invalid_token', { reason: found });
  if ('tokenId' in found) request.presented = found;
  return found;
}

/**
 * As `present`, where no scope is demanded. No limited token is good there, and 403 says so without a look at
 * any store: one that has ended gets it too. On 401 its client would look for a fault of the token.
 * @throws AuthError `invalid_token`, `insufficient_scope`
 */
function presentUnscoped<Found extends { type: string } & (PresentedIdentity | ServiceBearer)>(
  request: FastifyRequest,
  found: Found | TokenRefusal,
): Exclude<Found, { type: 'limited' }> {
  const bearer = present(request, found);
  if (bearer.type === 'limited') throw new AuthError('insufficient_scope', { reason: 'scope', scopes: [] });
  return bearer as Exclude<Found, { type: 'limited' }>;
}

/** @throws AuthError `token_missing`, `invalid_token` */
function presentedTokenOf(request: FastifyRequest): string {
  const token = bearerTokenOf(request);
  if (token !== undefined) return token;
  const { authorization = '' } = request.headers;
  if (!/^Bearer +\S/i.test(authorization)) throw new AuthError('token_missing');
  throw new AuthError('invalid_token', { reason: 'malformed' });
}

function authenticate(
  app: FastifyInstance,
  { codec, verify, serviceTokens, clock, service }: AuthenticateOptions,
  done: () => void,
): void {
  /** An access token or LLT, where no scope is demanded. */
  async function readUnscoped(request: FastifyRequest) {
    const found = await codec.verify(presentedTokenOf(request), 'access', 'llt', 'limited');
    return presentUnscoped(request, found);
  }

  /** As `readUnscoped`, and also a limited token, whatever its audience. */
  async function readToEnd(request: FastifyRequest) {
    const found = await codec.verifyToEnd(presentedTokenOf(request), 'access', 'llt', 'limited');
    return present(request, found);
  }

  /** The hooks of a route that changes something. @param admit checks the session, after the body has arrived. */
  const changeHooks = (
    admit: (request: FastifyRequest, bearer: Bearer) => Promise<void>,
    read: typeof readUnscoped | typeof readToEnd = readUnscoped,
  ): ChangeHooks => ({
    onRequest: authenticates(async (request) => {
      request.bearer = await read(request);
    }),
    preValidation: async (request) => {
      const bearer = bearerOf(request);
      if (hasExpired(bearer, clock.now())) throw expiredError(clock, 'invalid_token');
      await admit(request, bearer);
    },
  });

  async function admitCaller(request: FastifyRequest, bearer: Bearer): Promise<void> {
    request.caller = { ...(await verify(bearer, request)), checkedAfterBody: true };
    request.principal = request.caller;
  }

  /** The scopes come last: a token that has ended is 401, and an outage is 503. */
  async function verifyInScope(
    request: FastifyRequest,
    bearer: IdentityOf<'access' | 'llt' | 'exchanged'> | IdentityOf<'limited'>,
    needed: readonly string[],
  ): Promise<void> {
    request.principal = await verify(bearer, request);
    if (bearer.type === 'limited' && !isInScope(bearer.scopes, needed))
      throw new AuthError('insufficient_scope', { reason: 'scope', scopes: needed });
  }

  app.decorate('auth', {
    principal: authenticates(async (request) => {
      request.bearer = await readUnscoped(request);
      request.principal = await verify(request.bearer, request);
    }),
    forAudience: (audienceOf) =>
      authenticates(async (request) => {
        const token = presentedTokenOf(request);
        const audience = audienceOf(request);
        const found = audience === null ? 'audience' : await codec.verifyFor(token, audience, 'limited');
        const bearer = presentUnscoped(request, found);
        if (bearer.type === 'service') {
          request.callingService = await serviceTokens.verify(bearer);
          return;
        }
        request.principal = await verify(bearer, request);
        request.actor = bearer.actor;
      }),
    inScope: (scopesOf) =>
      authenticates(async (request) => {
        // First of all, so that a mistake in a proxy's configuration shows at every request.
        const needed = scopesOf(request);
        await verifyInScope(request, await readBearer(codec, request, 'access', 'llt', 'limited'), needed);
      }),
    inScopeForAudience: (scopesOf, audienceOf) =>
      authenticates(async (request) => {
        const needed = scopesOf(request);
        const found = await codec.verifyFor(presentedTokenOf(request), audienceOf(request), 'limited');
        const bearer = present(request, found);
        if (bearer.type === 'service') {
          request.callingService = await serviceTokens.verify(bearer);
          return;
        }
        await verifyInScope(request, bearer, needed);
        if (bearer.type === 'exchanged') request.actor = bearer.actor;
      }),
    change: changeHooks(admitCaller),
    changeUnless: (endsOwnToken, ...others) =>
      changeHooks(
        async (request, bearer) => {
          if (!endsOwnToken(request, bearer)) await admitCaller(request, bearer);
        },
        others.length > 0 ? readToEnd : readUnscoped,
      ),
    changeOrDone: (isDone) =>
      changeHooks(async (request, bearer) => {
        try {
          await admitCaller(request, bearer);
        } catch (error) {
          const hasEnded = error instanceof AuthError && error.code === 'invalid_token';
          if (!hasEnded || !(await isDone(request, bearer))) throw error;
        }
      }),
    service,
  });
  done();
}

/** The principal that the route's hook has set. A route without the hook fails here instead of running open. */
export function principalOf({ principal }: FastifyRequest): Principal {
  if (!principal) throw new AuthError('token_missing');
  return principal;
}

/** The caller that the route's hooks have set. A route without them fails here. */
export function callerOf({ caller }: FastifyRequest): Caller {
  if (!caller) throw new AuthError('token_missing');
  return caller;
}

/** The bearer that the route's hook has set. A route without the hook fails here. */
export function bearerOf({ bearer }: FastifyRequest): Bearer & PresentedIdentity {
  if (!bearer) throw new AuthError('token_missing');
  return bearer;
}

export default fp(authenticate, { name: 'authenticate', dependencies: ['request-context'], fastify: '5.x' });
