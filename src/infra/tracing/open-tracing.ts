import type { Tracing, TracingOptions } from './open-telemetry.ts';

/** @param options null if tracing is off; OpenTelemetry is then not even loaded. */
export async function openTracing(options: TracingOptions | null): Promise<Tracing | null> {
  if (!options) return null;
  const { openOpenTelemetry } = await import('./open-telemetry.ts');
  return openOpenTelemetry(options);
}
