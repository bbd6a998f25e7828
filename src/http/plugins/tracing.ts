import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { RequestSpan, Tracer } from '../../telemetry/tracer.ts';
import '../request.ts';

interface TracingOptions {
  tracer: Tracer;
}

const spans = new WeakMap<FastifyRequest, RequestSpan>();

/** Ends the request's span, if it has an open one. */
export function endSpan(request: FastifyRequest, status: number): void {
  spans.get(request)?.end(request.method, request.routeOptions.url, status);
  spans.delete(request);
}

/** A span for each request. Registered only if tracing is on, so that it costs nothing otherwise. */
function tracing(app: FastifyInstance, { tracer }: TracingOptions, done: () => void): void {
  app.addHook('onRequest', (request, _reply, next) => {
    const span = tracer.request(request.headers);
    spans.set(request, span);
    request.traceId = span.traceId;
    request.spanId = span.spanId;
    span.run(next);
  });
  app.addHook('preValidation', (request, _reply, next) => {
    // Reading the body has switched to the socket's async context: switch back.
    const span = spans.get(request);
    if (span) span.run(next);
    else next();
  });
  app.addHook('onResponse', (request, reply, next) => {
    endSpan(request, reply.statusCode);
    next();
  });
  done();
}

export default fp(tracing, { name: 'tracing', dependencies: ['request-context'], fastify: '5.x' });
