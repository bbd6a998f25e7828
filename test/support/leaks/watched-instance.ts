import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { unescape } from 'node:querystring';
import type { Test } from 'tap';
import { loadConfig, type Environment } from '../../../src/config/config.ts';
import type { Tracer } from '../../../src/telemetry/tracer.ts';
import { openTracing } from '../../../src/infra/tracing/open-tracing.ts';
import { startOtlpReceiver } from '../otlp-receiver.ts';
import { secretsInHttp } from './http-secrets.ts';
import { leakWatch, type Watched } from './leak-watch.ts';

/** Milliseconds. Other tests check that an instance does not hang. */
const SCRAPE_TIMEOUT = 2000;

/** Variables that make an instance send its spans to the watch. Empty while the watch is off. */
export async function spansTo(t: Test, watched: Watched): Promise<Environment> {
  if (!leakWatch.isOn) return {};
  const { url } = await startOtlpReceiver(t, (body) => {
    watched.heard('spans', body);
  });
  return {
    OTEL_EXPORTER_OTLP_ENDPOINT: url,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_BSP_SCHEDULE_DELAY: '200',
  };
}

/** The same for an instance in this process. OpenTelemetry's SDK reads its variables when it starts. */
export async function tracerTo(
  t: Test,
  watched: Watched,
): Promise<{ tracer: Tracer; close(): Promise<void> } | null> {
  if (!leakWatch.isOn) return null;
  const variables = await spansTo(t, watched);
  const before = { ...process.env };
  Object.assign(process.env, variables);
  try {
    const { tracing } = loadConfig(variables);
    return await openTracing(tracing && { ...tracing, onError: () => undefined });
  } finally {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) Reflect.deleteProperty(process.env, name);
      else process.env[name] = before[name];
    }
  }
}

/** Reads the current metrics, if the instance still answers. */
export async function scrape(watched: Watched, opsUrl: string): Promise<void> {
  if (!leakWatch.isOn) return;
  try {
    const response = await fetch(`${opsUrl}/metrics`, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT) });
    watched.heard('metrics', await response.text());
  } catch {
    // The instance is stopping. The test file fails if no instance had metrics.
  }
}

/** The secrets of an instance from its environment, and those generated in its data folder. */
export function rememberConfiguration(env: Environment, dataDir?: string): void {
  if (!leakWatch.isOn) return;
  for (const [name, given = ''] of Object.entries(env)) {
    const value = given.trim();
    const content = name.endsWith('_FILE') && existsSync(value) ? readFileSync(value, 'utf8').trim() : value;
    if (name.startsWith('REFRESH_TOKEN_SECRET')) rememberEach('refresh secret', content);
    if (name.startsWith('FACTOR_KEYS')) rememberEach('factor key', content);
    // Its members have the names that a request has.
    if (name === 'SEED_FILE')
      for (const [kind, secret] of secretsInHttp(content)) leakWatch.remember(kind, secret);
    if (/^(DATABASE|REDIS)_URL/.test(name) && URL.canParse(content)) {
      // It may be one that the service refuses.
      leakWatch.remember('database password', unescape(new URL(content).password));
    }
  }
  if (env.SIGNING_KEYS_DIR !== undefined) rememberKeys(env.SIGNING_KEYS_DIR);
  if (dataDir === undefined) return;
  rememberKeys(join(dataDir, 'keys'));
  for (const [kind, name] of [
    ['refresh secret', 'refresh-token-secret'],
    ['factor key', 'factor-keys'],
  ] as const) {
    const generated = join(dataDir, name);
    if (existsSync(generated)) rememberEach(kind, readFileSync(generated, 'utf8').trim());
  }
}

function rememberEach(kind: 'refresh secret' | 'factor key', text: string): void {
  for (const secret of text.split(',')) leakWatch.remember(kind, secret.trim());
}

/** Line by line, because part of a key is a leak too. */
function rememberKeys(folder: string): void {
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.pem'))) {
    // Some tests replace the file by a folder.
    if (!isFile(join(folder, name))) continue;
    const lines = readFileSync(join(folder, name), 'utf8').split('\n');
    // The first characters of a key only tell its kind.
    for (const line of lines.slice(1)) {
      if (!line.startsWith('-----')) leakWatch.remember('private key', line.slice(40));
    }
  }
}

function isFile(path: string): boolean {
  return statSync(path).isFile();
}
