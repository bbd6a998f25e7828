import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;

interface TestEnvironment {
  testEnvironment: (
    env: Record<string, string | undefined>,
    options?: { network?: boolean },
  ) => Record<string, string>;
}

const path = join(ROOT, 'scripts/test-environment.mjs');
const { testEnvironment } = (await import(path)) as TestEnvironment;

const HOSTILE = {
  DATA_DIR: '/somewhere',
  DATABASE_URL: 'postgres://127.0.0.1:1/none',
  PORT: '1',
  LOG_LEVEL: 'silent',
  NODE_ENV: 'production',
  NODE_OPTIONS: '--no-deprecation',
  OTEL_TRACES_EXPORTER: 'otlp',
  PGUSER: 'eve',
  UV_THREADPOOL_SIZE: '1',
  npm_config_script_shell: 'bash',
  npm_lifecycle_event: 'test',
};

/** The variables of process.env that a test or suite reads by name. */
const READS = /process\.env\.([A-Z_]+)|const \{ ([A-Z_]+(?:(?::| =|,) [\w']+)*) \} = process\.env;/g;

test('tests get paths and their own settings, and no variable that would change the service', (t) => {
  const own = {
    PATH: '/bin',
    HOME: '/root',
    CI: 'true',
    TEST_REDIS_URL: 'redis://127.0.0.1',
    FUZZ_COUNT: '3',
  };
  t.strictSame(testEnvironment({ ...HOSTILE, ...own }), own);
  const network = { HTTPS_PROXY: 'http://127.0.0.1:1', NODE_EXTRA_CA_CERTS: '/ca.pem' };
  t.strictSame(testEnvironment({ ...HOSTILE, ...network }), {});
  t.strictSame(testEnvironment({ ...HOSTILE, ...network }, { network: true }), network);
  t.end();
});

test('no test passes process.env on, and the runner lets through what tests read by name', (t) => {
  const read: string[] = [];
  const asAWhole: string[] = [];
  for (const { name, source } of testSources()) {
    for (const [, one, several = ''] of source.matchAll(READS)) {
      read.push(
        ...(one === undefined ? several.split(', ').map((text) => /^[A-Z_]+/.exec(text)?.[0] ?? '') : [one]),
      );
    }
    if (source.replace(READS, '').includes('process.env')) asAWhole.push(`test/${name}`);
  }
  t.strictSame(asAWhole, []);
  t.ok(read.includes('TEST_REDIS_URL') && read.includes('PATH'), 'some test reads a variable');
  const refused = read.filter((variable) => testEnvironment({ [variable]: 'x' })[variable] === undefined);
  t.strictSame(refused, []);
  t.end();
});

/**
 * Leaves out the commands for measuring and the soak test, which the test runner does not start, code that runs inside a container or is
 * a test's text, and the one file that sets variables for OpenTelemetry's SDK and restores them.
 */
function testSources() {
  return readdirSync(join(ROOT, 'test'), { recursive: true })
    .map(String)
    .filter(
      (name) =>
        name.endsWith('.ts') &&
        !/^(bench|scale)\/|^load\/load\.ts|soak\/|^scripts\/|leaks\/watched-instance|^support\/admin-program/.test(
          name,
        ),
    )
    .map((name) => ({
      name,
      source: readFileSync(join(ROOT, 'test', name), 'utf8').replace("'JSON.stringify(process.env)'", ''),
    }));
}
