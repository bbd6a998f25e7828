import { z } from 'zod';

const PROTOCOLS = ['http/protobuf', 'http/json'] as const;

const endpoint = z
  .string()
  .refine((value) => /^https?:/.test(value) && URL.canParse(value), 'must be a URL (http:// or https://)')
  .optional();
const protocol = z.enum(PROTOCOLS, 'must be http/protobuf or http/json').optional();

/**
 * The OpenTelemetry variables that decide whether and how spans are sent. If tracing is on, its SDK reads the others
 * (headers, sampler, resource, batches).
 */
export const TRACING_FIELDS = {
  OTEL_SDK_DISABLED: {
    schema: z
      .enum(['true', 'false'], 'must be true or false')
      .default('false')
      .transform((value) => value === 'true'),
    type: '`true`, `false`',
    defaultText: 'false',
    meaning: '`true` sends nothing, even if other variables ask for it',
  },
  OTEL_TRACES_EXPORTER: {
    schema: z.enum(['otlp', 'none'], 'must be otlp or none').optional(),
    type: '`otlp`, `none`',
    defaultText: 'none',
    meaning: '`otlp` sends spans; an endpoint alone does too, unless this is `none`',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: endpoint,
    type: 'URL',
    defaultText: 'http://localhost:4318',
    meaning: 'the collector; `/v1/traces` is appended',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    schema: endpoint,
    type: 'URL',
    defaultText: 'none',
    meaning: 'the complete URL for spans, used instead',
  },
  OTEL_EXPORTER_OTLP_PROTOCOL: {
    schema: protocol,
    type: '`http/protobuf`, `http/json`',
    defaultText: 'http/protobuf',
    meaning: 'encoding of spans',
  },
  OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: {
    schema: protocol,
    type: '`http/protobuf`, `http/json`',
    defaultText: 'http/protobuf',
    meaning: 'the same; decides if both are set',
  },
};

type TracingValues = {
  readonly [Name in keyof typeof TRACING_FIELDS]: z.output<(typeof TRACING_FIELDS)[Name]['schema']>;
};

export type TracingProtocol = (typeof PROTOCOLS)[number];

/**
 * Spans are sent if an exporter or an endpoint is set and nothing turns tracing off. If neither is set, none are sent,
 * although the specification would send them to localhost.
 * @returns the protocol; null if tracing is off.
 */
export function tracingOf(values: TracingValues): TracingProtocol | null {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = values;
  const named = values.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT ?? values.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (disabled || exporter === 'none' || (exporter ?? named) === undefined) return null;
  return values.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? values.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf';
}
