import { test } from 'tap';
import { ConfigError, loadConfig, type Environment } from '../../src/config/config.ts';

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' };
const TRACES_ENDPOINT = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://collector/v1/traces' };

const CASES: [Environment, string | null][] = [
  [{}, null],
  [{ OTEL_SERVICE_NAME: 'x', OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }, null],
  [ENDPOINT, 'http/protobuf'],
  [TRACES_ENDPOINT, 'http/protobuf'],
  [{ OTEL_TRACES_EXPORTER: 'otlp' }, 'http/protobuf'],
  [{ OTEL_TRACES_EXPORTER: 'none', ...ENDPOINT }, null],
  [{ OTEL_SDK_DISABLED: 'true', ...ENDPOINT, OTEL_TRACES_EXPORTER: 'otlp' }, null],
  [{ OTEL_SDK_DISABLED: 'false', ...ENDPOINT }, 'http/protobuf'],
  [{ ...ENDPOINT, OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json' }, 'http/json'],
  [
    {
      ...ENDPOINT,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
    },
    'http/protobuf',
  ],
];

test('spans go to the endpoint in the OpenTelemetry variables', (t) => {
  for (const [env, protocol] of CASES)
    t.equal(loadConfig(env).tracing?.protocol ?? null, protocol, JSON.stringify(env));
  t.end();
});

test('an unsupported tracing setting prevents the start', (t) => {
  const bad: Environment = {
    OTEL_TRACES_EXPORTER: 'zipkin',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc',
    OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318',
    OTEL_SDK_DISABLED: 'yes',
  };
  for (const [name, value] of Object.entries(bad)) {
    t.throws(() => loadConfig({ [name]: value }), ConfigError, `${name}=${value}`);
  }
  t.end();
});
