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
import type { RequestSpan, Span, Tracer } from '../../telemetry/tracer.ts';

export interface TracingOptions {
  protocol: 'http/protobuf' | 'http/json';
  url: string;
  headers: Readonly<Record<string, string>>;
  /** Called at most once a minute if spans cannot be sent. */
  onError: (error: Error) => void;
}

export interface Tracing {
  tracer: Tracer;
  /** Tries to send the remaining spans. */
  close(): Promise<void>;
}

/** Milliseconds between two reports: a collector may be down for hours. */
const REPORT_INTERVAL = 60_000;

const NO_SPAN: Span = { end: () => undefined };

/** OpenTelemetry's SDK reads sampler, resource and batch sizes from its own OTEL_ variables. */
export function openOpenTelemetry({ protocol, url, headers, onError }: TracingOptions): Tracing {
  const report = limitReports(onError);
  setGlobalErrorHandler(report);
  const target = { url, headers };
  const exporter = protocol === 'http/json' ? new JsonExporter(target) : new ProtobufExporter(target);
  const provider = new BasicTracerProvider({
    resource: defaultResource()
      .merge(resourceFromAttributes({ 'service.name': 'latchkey' }))
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  });
  return {
    tracer: makeTracer(provider.getTracer('latchkey')),
    close: () => provider.shutdown().catch(report),
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
      // Background tasks run every second: their spans would be noise.
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
      // The pattern, not the path: a client may have put a token into the path by mistake.
      span.updateName(route === undefined ? method : `${method} ${route}`);
      span.setAttributes({
        'http.request.method': method,
        'http.response.status_code': status,
        ...(route !== undefined && { 'http.route': route }),
      });
      // Semantic conventions: for a server span, a 4xx is not an error.
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

function limitReports(onError: TracingOptions['onError']) {
  let last = -Infinity;
  return (error: unknown) => {
    if (performance.now() - last < REPORT_INTERVAL) return;
    last = performance.now();
    onError(error instanceof Error ? error : new Error(String(error)));
  };
}
