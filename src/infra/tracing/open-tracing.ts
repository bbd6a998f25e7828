import type { Tracer } from '../../domain/tracing/tracer.ts';

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

/** @param options null where nobody asked for spans: then nothing of OpenTelemetry is even loaded. */
export async function openTracing(options: TracingOptions | null): Promise<Tracing | null> {
  if (!options) return null;
  const { openOpenTelemetry } = await import('./open-telemetry.ts');
  return openOpenTelemetry(options);
}
