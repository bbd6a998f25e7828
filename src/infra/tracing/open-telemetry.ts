import { AsyncLocalStorage } from 'node:async_hooks';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  defaultTextMapGetter,
  type Context,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
} from '@opentelemetry/api';
import { setGlobalErrorHandler, W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from '@opentelemetry/resources';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';
import type { RequestSpan, Span, Tracer } from '../../domain/tracing/tracer.ts';

export interface TracingOptions {
  protocol: 'http/protobuf' | 'http/json';
  /** Told when spans could not be sent, at most once a minute. */
  onError: (error: Error) => void;
}

export interface Tracing {
  tracer: Tracer;
  /** Sends what is left, where that can be done. */
  close(): Promise<void>;
}

/** Between two complaints, in milliseconds: a collector may be away for hours. */
const COMPLAINT_INTERVAL = 60_000;

const NO_SPAN: Span = { end: () => undefined };

/** OpenTelemetry's SDK, which reads the endpoint, headers, sampler and batches from its own variables by itself. */
export function openOpenTelemetry({ protocol, onError }: TracingOptions): Tracing {
  const complain = makeComplaint(onError);
  setGlobalErrorHandler(complain);
  const exporter = protocol === 'http/json' ? new JsonExporter() : new ProtobufExporter();
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'latchkey' }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  return {
    tracer: makeTracer(provider.getTracer('latchkey')),
    close: () => provider.shutdown().catch(complain),
  };
}

function makeTracer(tracer: OtelTracer): Tracer {
  const contexts = new AsyncLocalStorage<Context>();
  const propagator = new W3CTraceContextPropagator();
  return {
    request(headers) {
      const parent = propagator.extract(ROOT_CONTEXT, headers, defaultTextMapGetter);
      const span = tracer.startSpan('request', { kind: SpanKind.SERVER }, parent);
      return makeRequestSpan(span, (work) => contexts.run(trace.setSpan(parent, span), work));
    },
    start(name, attributes) {
      const parent = contexts.getStore();
      // What goes on beside the requests every second would be nothing but noise.
      if (!parent) return NO_SPAN;
      const kind = 'db.system.name' in attributes ? SpanKind.CLIENT : SpanKind.INTERNAL;
      return makeSpan(tracer.startSpan(name, { kind, attributes }, parent));
    },
    current() {
      const context = contexts.getStore();
      return (context && trace.getSpanContext(context)) ?? null;
    },
  };
}

function makeRequestSpan(span: OtelSpan, run: RequestSpan['run']): RequestSpan {
  const { traceId, spanId } = span.spanContext();
  return {
    traceId,
    spanId,
    run,
    end(method, route, status) {
      // The pattern, not the path: what a client puts there by mistake may be a token.
      span.updateName(route === undefined ? method : `${method} ${route}`);
      span.setAttributes({
        'http.request.method': method,
        'http.response.status_code': status,
        ...(route !== undefined && { 'http.route': route }),
      });
      // Semantic conventions: what the client did wrong is no error of the server's.
      if (status >= 500) {
        span.setAttribute('error.type', String(status));
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}

function makeSpan(span: OtelSpan): Span {
  return {
    end(error) {
      if (error !== undefined) {
        const { name = 'Error', code } = error as { name?: string; code?: string };
        span.setAttribute('error.type', code ?? name);
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}

function makeComplaint(onError: TracingOptions['onError']) {
  let last = -Infinity;
  return (error: unknown) => {
    if (performance.now() - last < COMPLAINT_INTERVAL) return;
    last = performance.now();
    onError(error instanceof Error ? error : new Error(String(error)));
  };
}
