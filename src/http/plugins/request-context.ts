import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Clock } from '../../domain/clock.ts';
import { AuthError, type ErrorCode } from '../../domain/errors.ts';
import type { Observe } from '../../domain/metrics/observe.ts';
import '../request.ts';
import { endSpan } from './tracing.ts';

interface RequestContextOptions {
  clock: Clock;
  /** While true, every answer asks its client to open its next connection elsewhere. */
  isDraining: () => boolean;
  observe: Observe;
}

export const REQUEST_ID = /^[A-Za-z0-9-]{1,64}$/;
const TRACEPARENT = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/;

/** The caller's request id where it is one, or a new one: it goes into logs, so it may hold nothing but what is safe. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

/** RFC 9112, section 6.3: where the last coding is not `chunked` nobody knows where the body ends. */
function hasNoEnd(coding: string | undefined): boolean {
  return coding !== undefined && !/(?:^|,)[ \t]*chunked[ \t]*$/i.test(coding);
}

/** What every request gets before anything else, and one line in the log when it is over. */
function requestContext(
  app: FastifyInstance,
  { clock, isDraining, observe }: RequestContextOptions,
  done: () => void,
): void {
  app.decorateRequest('receivedAt', 0);
  app.decorateRequest('bearer', null);
  app.decorateRequest('principal', null);
  app.decorateRequest('serviceClient', null);
  app.decorateRequest('errorCode', null);
  app.decorateRequest('isStreamed', false);
  app.decorateRequest('traceId', null);
  app.decorateRequest('spanId', null);

  app.addHook('onRequest', (request, reply, next) => {
    request.receivedAt = clock.monotonic();
    observe.requestBegan();
    const { traceparent } = request.headers;
    if (typeof traceparent === 'string') request.traceId = TRACEPARENT.exec(traceparent)?.[1] ?? null;
    // Nothing that we answer may be kept by anybody in between.
    reply.header('x-request-id', request.id).header('cache-control', 'no-store');
    // RFC 9112, section 3.2: HTTP/1.1 without Host is refused.
    const isHostMissing = request.headers.host === undefined && request.raw.httpVersion === '1.1';
    const isEndless = hasNoEnd(request.headers['transfer-encoding']);
    // Node finds that out only after the route may have answered (see raw-errors.ts).
    if (isEndless) reply.header('connection', 'close');
    next(isHostMissing || isEndless ? new AuthError('bad_request') : undefined);
  });

  app.addHook('onSend', (_request, reply, payload, next) => {
    if (isDraining()) reply.header('connection', 'close');
    next(null, payload);
  });

  app.addHook('onResponse', (request, reply, next) => {
    if (!request.isStreamed)
      endRequest(request, reply.statusCode, clock.monotonic() - request.receivedAt, observe);
    next();
  });
  // A stream may last for days: what is told of a request is how long it waited for the first of it.
  app.decorate('streamBegins', (request) => {
    request.isStreamed = true;
    endRequest(request, 200, clock.monotonic() - request.receivedAt, observe);
    endSpan(request, 200);
  });
  done();
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Ends a request for log, metrics and traces when its answer begins; it is never over as others are. */
    streamBegins(request: FastifyRequest): void;
  }
}

/** What a client did is no fault, and neither is that it was told to wait: a flood must not fill the log with warnings. */
function isOurFault(status: number, code: ErrorCode | null): boolean {
  return status >= 500 && code !== 'overloaded' && code !== 'refresh_overlap';
}

/** The line and the figures that every request leaves. @param elapsed milliseconds. */
export function endRequest(request: FastifyRequest, status: number, elapsed: number, observe: Observe): void {
  observe.requestEnded(request.method, request.routeOptions.url, status, elapsed / 1000);
  if (request.errorCode !== null) observe.error(request.errorCode);
  const { method, routeOptions, errorCode, principal, serviceClient, traceId, spanId } = request;
  const entry = {
    method,
    // The pattern, not the path: what a client puts there by mistake may be a token.
    route: routeOptions.url ?? null,
    status,
    ms: Math.round(elapsed * 1000) / 1000,
    ...(errorCode && { code: errorCode }),
    ...(principal && { userId: principal.user.id, tokenId: principal.tokenId }),
    ...(serviceClient && { clientId: serviceClient.clientId }),
    ...(traceId && { trace_id: traceId }),
    ...(spanId && { span_id: spanId }),
  };
  if (isOurFault(status, errorCode)) request.log.warn(entry, 'request');
  else request.log.info(entry, 'request');
}

export default fp(requestContext, { name: 'request-context', fastify: '5.x' });
