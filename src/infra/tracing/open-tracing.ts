import type { Tracing, TracingOptions } from './open-telemetry.ts';

/** @param options null where nobody asked for spans: then nothing of OpenTelemetry is even loaded. */
export async function openTracing(options: TracingOptions | null): Promise<Tracing | null> {
  if (!options) return null;
  const { openOpenTelemetry } = await import('./open-telemetry.ts');
  return openOpenTelemetry(options);
}
