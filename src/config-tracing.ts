import { z } from 'zod';

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;

const endpoint = z
  .string()
  .refine((value) => /^https?:/.test(value) && URL.canParse(value), 'must be a URL (http:// or https://)')
  .optional();
const protocol = z.enum(PROTOCOLS, 'must be http/protobuf or http/json').optional();

/**
 * OpenTelemetry's own variables, as far as they decide whether and how spans are sent. The others (headers, sampler,
 * resource, batches) are read by its SDK, once it is asked for.
 */
export const TRACING_FIELDS = {
  OTEL_SDK_DISABLED: {
    schema: z
      .enum(['true', 'false'], 'must be true or false')
      .default('false')
      .transform((value) => value === 'true'),
    shown: 'false',
  },
  OTEL_TRACES_EXPORTER: {
    schema: z.enum(['otlp', 'none'], 'must be otlp or none').optional(),
    shown: 'none',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: { schema: endpoint, shown: 'http://localhost:4318' },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: { schema: endpoint, shown: 'none' },
  OTEL_EXPORTER_OTLP_PROTOCOL: { schema: protocol, shown: 'http/protobuf' },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: { schema: protocol, shown: 'http/protobuf' },
};

type TracingValues = {
  readonly [Name in keyof typeof TRACING_FIELDS]: z.output<(typeof TRACING_FIELDS)[Name]['schema']>;
};

export type TracingProtocol = (typeof PROTOCOLS)[number];

/**
 * Spans are sent where an exporter or an endpoint is named, and nothing turns it off. Without any of them there are none,
 * though the specification would send them to localhost.
 * @returns how; null for not at all.
 */
export function tracingOf(values: TracingValues): TracingProtocol | null {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = values;
  const named = values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? values.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (disabled || exporter === 'none' || (exporter ?? named) === undefined) return null;
  return values.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? values.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf';
}
