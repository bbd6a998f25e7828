import type { Bearer, Principal } from '../domain/access-tokens/principal.ts';
import type { ServiceIdentity } from '../domain/clients/service-client.ts';
import type { ErrorCode } from '../domain/errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's head was complete, by the monotonic clock in milliseconds. */
    receivedAt: number;
    /** The bearer token, once its signature and claims have been verified. */
    bearer: Bearer | null;
    /** Who asks, once the token's session has been found good. */
    principal: Principal | null;
    /** Which registered service asks, once its secret has been found right. */
    serviceClient: ServiceIdentity | null;
    /** Why the request was refused, for the log. */
    errorCode: ErrorCode | null;
    /** Its line and figures are there already: a stream has begun (see request-context.ts). */
    isStreamed: boolean;
    /** The trace (W3C Trace Context): the caller's, or one of our own while tracing is on. For the log. */
    traceId: string | null;
    /** The request's span, while tracing is on. */
    spanId: string | null;
  }

  interface FastifyContextConfig {
    /** Errors also carry the members that OAuth clients read (oauth-error.ts). */
    oauthErrors?: boolean;
  }
}
