import type { Bearer, Principal } from '../domain/access-tokens/principal.ts';
import type { ErrorCode } from '../domain/errors.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** When the request's head was complete, by the monotonic clock in milliseconds. */
    receivedAt: number;
    /** The bearer token, once its signature and claims have been verified. */
    bearer: Bearer | null;
    /** Who asks, once the token's session has been found good. */
    principal: Principal | null;
    /** Why the request was refused, for the log. */
    errorCode: ErrorCode | null;
    /** The trace (W3C Trace Context): the caller's, or one of our own while tracing is on. For the log. */
    traceId: string | null;
    /** The request's span, while tracing is on. */
    spanId: string | null;
  }

  interface FastifySchema {
    operationId?: string;
    summary?: string;
  }
}
