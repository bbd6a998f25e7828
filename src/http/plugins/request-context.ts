import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { Clock } from '../../domain/clock.ts';
import { AuthError } from '../../domain/errors.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { sourceOf } from '../caller/user-agent.ts';
import '../request.ts';
import type { RequestLog } from './request-log.ts';
import { endSpan } from './tracing.ts';

interface RequestContextOptions {
  clock: Clock;
  /** While true, every answer asks its client to open its next connection elsewhere. */
  isDraining: () => boolean;
  observe: Pick<Observe, 'requestBegan'>;
  endRequest: EndRequest;
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

/** Prepares every request before any other hook, and ends it for log and metrics. */
function requestContext(
  app: FastifyInstance,
  { clock, isDraining, observe, endRequest }: RequestContextOptions,
  done: () => void,
): void {
  app.decorateRequest('receivedAt', 0);
  app.decorateRequest('bearer', null);
  app.decorateRequest('principal', null);
  app.decorateRequest('callingService', null);
  app.decorateRequest('actor', '');
  app.decorateRequest('caller', null);
  app.decorateRequest('service', null);
  app.decorateRequest('source', {
    getter() {
      return sourceOf(this);
    },
  });
  app.decorateRequest('presented', null);
  app.decorateRequest('errorCode', null);
  app.decorateRequest('refusalReason', null);
  app.decorateRequest('limited', null);
  app.decorateRequest('refusedService', null);
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
    if (!request.isStreamed) endRequest(request, reply.statusCode);
    next();
  });
  // A stream may last for days, so the request ends when the stream begins.
  app.decorate('streamBegins', (request) => {
    request.isStreamed = true;
    endRequest(request, 200);
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

/** Ends a request for log and metrics. */
export type EndRequest = (request: FastifyRequest, status: number) => void;

export function makeEndRequest({
  clock,
  observe,
  requestLog,
}: {
  clock: Pick<Clock, 'monotonic'>;
  observe: Pick<Observe, 'requestEnded' | 'error'>;
  requestLog: Pick<RequestLog, 'ended'>;
}): EndRequest {
  return function endRequest(request, status) {
    // A request that fails before routing has no receivedAt.
    const elapsed = request.receivedAt > 0 ? clock.monotonic() - request.receivedAt : 0;
    observe.requestEnded(request.method, request.routeOptions.url, status, elapsed / 1000);
    if (request.errorCode !== null) observe.error(request.errorCode, request.refusalReason);
    requestLog.ended(request, status, elapsed);
  };
}

export default fp(requestContext, { name: 'request-context', fastify: '5.x' });
