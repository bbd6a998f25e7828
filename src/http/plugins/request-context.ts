import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Clock } from '../../domain/clock.ts';
import { AuthError, type ErrorCode } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { sourceOf } from '../caller/source.ts';
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

/** The caller's request id, or a new one if that is invalid: logs contain it, so it may hold only safe characters. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id'];
  return typeof given === 'string' && REQUEST_ID.test(given) ? given : randomUUID();
}

/** RFC 9112, section 6.3: if the last coding is not `chunked`, the end of the body is unknown. */
function hasNoEnd(coding: string | undefined): boolean {
  return coding !== undefined && !/(?:^|,)[ \t]*chunked[ \t]*$/i.test(coding);
}

/** Prepares every request before any other hook, and logs one line when it ends. */
function requestContext(
  app: FastifyInstance,
  { clock, isDraining, observe }: RequestContextOptions,
  done: () => void,
): void {
  app.decorateRequest('receivedAt', 0);
  app.decorateRequest('bearer', null);
  app.decorateRequest('principal', null);
  app.decorateRequest('caller', null);
  app.decorateRequest('serviceClient', null);
  app.decorateRequest('source', {
    getter() {
      return sourceOf(this);
    },
  });
  app.decorateRequest('errorCode', null);
  app.decorateRequest('isStreamed', false);
  app.decorateRequest('traceId', null);
  app.decorateRequest('spanId', null);

  // Node remembers a peer's address once it was read, and cannot read it after a reset. A caller that resets its
  // connection must not be missing in the audit trail.
  app.server.on('connection', (socket) => {
    if (socket.remoteAddress === undefined) socket.destroy();
  });

  app.addHook('onRequest', (request, reply, next) => {
    request.receivedAt = clock.monotonic();
    observe.requestBegan();
    const { traceparent } = request.headers;
    if (typeof traceparent === 'string') request.traceId = TRACEPARENT.exec(traceparent)?.[1] ?? null;
    // No cache may store an answer, except public documents, which override this.
    reply.header('x-request-id', request.id).header('cache-control', 'no-store');
    // RFC 9112, section 3.2: HTTP/1.1 without Host is refused.
    const isHostMissing = request.headers.host === undefined && request.raw.httpVersion === '1.1';
    const isEndless = hasNoEnd(request.headers['transfer-encoding']);
    // Node detects this only after the route may have answered (see socket-errors.ts).
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
  // A stream may last for days, so the request ends when the stream begins.
  app.decorate('streamBegins', (request) => {
    request.isStreamed = true;
    endRequest(request, 200, clock.monotonic() - request.receivedAt, observe);
    endSpan(request, 200);
  });
  done();
}

declare module 'fastify' {
  interface FastifyInstance {
    /** Ends a streamed request for log, metrics and traces as soon as its answer begins. */
    streamBegins(request: FastifyRequest): void;
  }
}

/** Excludes client errors, and refusals that ask a client to wait: a flood must not fill the log with warnings. */
function isOurFault(status: number, code: ErrorCode | null): boolean {
  return status >= 500 && code !== 'overloaded' && code !== 'refresh_overlap';
}

/** Writes a request's log line and metrics. @param elapsed milliseconds. */
export function endRequest(request: FastifyRequest, status: number, elapsed: number, observe: Observe): void {
  observe.requestEnded(request.method, request.routeOptions.url, status, elapsed / 1000);
  if (request.errorCode !== null) observe.error(request.errorCode);
  const { method, routeOptions, errorCode, principal, serviceClient, traceId, spanId } = request;
  const entry = {
    method,
    // The pattern, not the path: a client may put a token there by mistake.
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
