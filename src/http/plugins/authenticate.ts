import type { FastifyInstance, FastifyRequest, onRequestAsyncHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import type { TokenIdentity, TokenType } from '../../domain/access-tokens/claims.ts';
import type { Bearer, Principal } from '../../domain/access-tokens/principal.ts';
import type { Verify } from '../../domain/access-tokens/verify.ts';
import { AuthError } from '../../domain/errors.ts';
import type { TokenCodec } from './jwt.ts';
import '../request.ts';

interface AuthenticateOptions {
  codec: TokenCodec;
  verify: Verify;
  /** See authenticate-client.ts. */
  client: onRequestAsyncHookHandler;
}

declare module 'fastify' {
  interface FastifyInstance {
    /** The hooks by which a route says who may call it. A route without one is public. */
    auth: {
      /** An access token or LLT with a right signature; its session may be over. Sets `bearer`. */
      bearer: onRequestAsyncHookHandler;
      /** An access token or LLT that is good. Sets `bearer` and `principal`. */
      principal: onRequestAsyncHookHandler;
      /** As `principal`, unless the caller ends the token in hand (see log-out.ts). */
      principalUnless(
        endsOwnToken: (request: FastifyRequest, bearer: Bearer) => boolean,
      ): onRequestAsyncHookHandler;
      /** A registered service. Sets `serviceClient`. */
      client: onRequestAsyncHookHandler;
      /**
       * As `principal`, but lets the owner of a token that is over pass without one where what is asked for has happened:
       * its answer may have been lost.
       */
      principalOrDone(
        isDone: (request: FastifyRequest, bearer: Bearer) => Promise<boolean>,
      ): onRequestAsyncHookHandler;
    };
  }
}

const BEARER = /^Bearer +([^\s]+) *$/i;

/** RFC 6750, section 2.1: the only place where we look for a token. @throws AuthError `token_missing`, `invalid_token` */
export async function readBearer<Type extends TokenType>(
  codec: TokenCodec,
  { headers }: FastifyRequest,
  ...types: Type[]
): Promise<TokenIdentity & { type: Type }> {
  const { authorization = '' } = headers;
  const token = BEARER.exec(authorization)?.[1];
  if (token === undefined)
    throw new AuthError(/^Bearer +\S/i.test(authorization) ? 'invalid_token' : 'token_missing');
  const identity = await codec.verify(token, ...types);
  if (!identity) throw new AuthError('invalid_token');
  return identity;
}

function authenticate(
  app: FastifyInstance,
  { codec, verify, client }: AuthenticateOptions,
  done: () => void,
): void {
  async function bearer(request: FastifyRequest): Promise<Bearer> {
    request.bearer = await readBearer(codec, request, 'access', 'llt');
    return request.bearer;
  }
  app.decorate('auth', {
    bearer: async (request) => {
      await bearer(request);
    },
    principal: async (request) => {
      request.principal = await verify(await bearer(request));
    },
    principalUnless: (endsOwnToken) => async (request) => {
      const found = await bearer(request);
      if (!endsOwnToken(request, found)) request.principal = await verify(found);
    },
    client,
    principalOrDone: (isDone) => async (request) => {
      const found = await bearer(request);
      try {
        request.principal = await verify(found);
      } catch (error) {
        const isOver = error instanceof AuthError && error.code === 'invalid_token';
        if (!isOver || !(await isDone(request, found))) throw error;
      }
    },
  });
  done();
}

/** The principal that the route's hook has set; a route that forgot its hook fails here, and not open. */
export function principalOf({ principal }: FastifyRequest): Principal {
  if (!principal) throw new AuthError('token_missing');
  return principal;
}

/** The bearer that the route's hook has set; the same holds. */
export function bearerOf({ bearer }: FastifyRequest): Bearer {
  if (!bearer) throw new AuthError('token_missing');
  return bearer;
}

export default fp(authenticate, { name: 'authenticate', dependencies: ['request-context'], fastify: '5.x' });
