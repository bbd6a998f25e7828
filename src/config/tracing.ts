import { validateHeaderName, validateHeaderValue } from 'node:http';
import { z } from 'zod';
import { offByDefault, orIssue, plainUrl, url } from './field-kinds.ts';
import { listOf } from './networks.ts';

/** Of the specification. */
const COLLECTOR = 'http://localhost:4318';
const PROTOCOLS = ['http/protobuf', 'http/json'] as const;

const headers = {
  schema: z.string().transform(orIssue(readHeaders)).optional(),
  type: 'list of `NAME=VALUE` (secret)',
  defaultText: 'none',
};
const protocol = z.enum(PROTOCOLS, 'must be http/protobuf or http/json').optional();

/**
 * The OpenTelemetry variables that decide whether and where spans are sent. If tracing is on, its SDK reads the others
 * (sampler, resource, batches), and takes its defaults for those that it cannot read.
 */
export const TRACING_FIELDS = {
  OTEL_SDK_DISABLED: offByDefault('`true` sends nothing, even if other variables ask for it'),
  OTEL_TRACES_EXPORTER: {
    schema: z.enum(['otlp', 'none'], 'must be otlp or none').optional(),
    type: '`otlp`, `none`',
    defaultText: 'none',
    meaning: '`otlp` sends spans; an endpoint alone does too, unless this is `none`',
  },
  OTEL_EXPORTER_OTLP_ENDPOINT: {
    schema: plainUrl().optional(),
    type: 'URL',
    defaultText: COLLECTOR,
    meaning: 'the collector; `/v1/traces` is appended',
  },
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: {
    schema: url(['http:', 'https:']).optional(),
    type: 'URL',
    defaultText: 'none',
    meaning: 'the complete URL for spans, used instead',
  },
  OTEL_EXPORTER_OTLP_HEADERS: {
    ...headers,
    meaning: 'headers for the collector; values are percent-encoded',
  },
  OTEL_EXPORTER_OTLP_TRACES_HEADERS: { ...headers, meaning: 'the same; added to those, and decides' },
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

/** How spans are sent. */
export interface TracingTarget {
  protocol: (typeof PROTOCOLS)[number];
  url: string;
  headers: Readonly<Record<string, string>>;
}

/**
 * Spans are sent if an exporter or an endpoint is set and nothing turns tracing off. If neither is set, none are sent,
 * although the specification would send them to localhost.
 * @returns null if tracing is off.
 */
export function tracingOf(values: TracingValues): TracingTarget | null {
  const { OTEL_SDK_DISABLED: disabled, OTEL_TRACES_EXPORTER: exporter } = values;
  const { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: complete, OTEL_EXPORTER_OTLP_ENDPOINT: base } = values;
  if (disabled || exporter === 'none' || (exporter ?? complete ?? base) === undefined) return null;
  return {
    protocol:
      values.OTEL_EXPORTER_OTLP_TRACES_PROTOCOL ?? values.OTEL_EXPORTER_OTLP_PROTOCOL ?? 'http/protobuf',
    url: complete ?? `${(base ?? COLLECTOR).replace(/\/$/, '')}/v1/traces`,
    headers: { ...values.OTEL_EXPORTER_OTLP_HEADERS, ...values.OTEL_EXPORTER_OTLP_TRACES_HEADERS },
  };
}

/** OpenTelemetry’s list: `NAME=VALUE`, both percent-encoded, separated by commas. Its SDK drops what it cannot read. */
function readHeaders(value: string): Record<string, string> | string {
  const read: Record<string, string> = {};
  for (const entry of listOf(value)) {
    const [, name = '', text = ''] = /^([^=;]+?)\s*=\s*([^;]+)$/.exec(entry) ?? [];
    try {
      const header = decodeURIComponent(name);
      validateHeaderName(header);
      validateHeaderValue(header, (read[header] = decodeURIComponent(text)));
    } catch {
      return 'must be NAME=VALUE, separated by commas: names and values of HTTP headers, percent-encoded';
    }
  }
  return read;
}
