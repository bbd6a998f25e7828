import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import type { RequestSpan, Tracer } from '../../domain/tracing/tracer.ts';
import '../request.ts';

interface TracingOptions {
  tracer: Tracer;
}

const spans = new WeakMap<FastifyRequest, RequestSpan>();

/** Ends the request's span, if it has one that is not over yet. */
export function endSpan(request: FastifyRequest, status: number): void {
  spans.get(request)?.end(request.method, request.routeOptions.url, status);
  spans.delete(request);
}

/** A span for each request. Registered only where somebody asked for spans, so that otherwise there is no hook to run. */
function tracing(app: FastifyInstance, { tracer }: TracingOptions, done: () => void): void {
  app.addHook('onRequest', (request, _reply, next) => {
    const span = tracer.request(request.headers);
    spans.set(request, span);
    request.traceId = span.traceId;
    request.spanId = span.spanId;
    span.run(next);
  });
  app.addHook('preValidation', (request, _reply, next) => {
    // The body has been read by then, in the context of its socket.
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
