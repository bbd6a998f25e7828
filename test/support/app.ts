import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify';
import { pino } from 'pino';
import type { Test } from 'tap';
import { buildApp, type AppOptions } from '../../src/app.ts';
import { compose, type Composition } from '../../src/composition/compose.ts';
import { loadConfig, type Environment } from '../../src/config/config.ts';
import { LINE_FORMAT } from '../../src/runtime/logger.ts';
import { NO_DATA_DIR } from './environment.ts';
import { leakWatch } from './leaks/leak-watch.ts';
import { logLines } from './log-lines.ts';
import { rememberConfiguration, tracerTo } from './leaks/watched-instance.ts';
import { testDatabase } from './postgres.ts';
import { until } from './until.ts';

export interface TestApp {
  app: FastifyInstance;
  composition: Composition;
  databaseUrl: string;
  /** The complete log. */
  log(): string;
  /** The lines of the audit trail. */
  audit(): Record<string, unknown>[];
  inject(options: InjectOptions): Promise<LightMyRequestResponse>;
}

interface TestAppOptions {
  /** Variables added to TEST_ENVIRONMENT. */
  env?: Environment;
  /** Replaces parts of the composition. */
  override?: (options: AppOptions) => AppOptions;
  databaseUrl?: string;
  /** False if the test expects a store to be down. */
  storesAnswer?: boolean;
}

/** The defaults of every test: quick hashes and no limits. */
export const TEST_ENVIRONMENT: Environment = {
  DATA_DIR: NO_DATA_DIR,
  SCRYPT_LOG_N: '4',
  RATE_LIMIT_LOGIN: '0',
  RATE_LIMIT_SIGNUP: '0',
  RATE_LIMIT_SIGNUP_NETWORK: '0',
  RATE_LIMIT_LLT: '0',
  RATE_LIMIT_LLT_NETWORK: '0',
  RATE_LIMIT_PROFILE: '0',
  RATE_LIMIT_ACCOUNT: '0',
  RATE_LIMIT_NETWORK: '0',
  RATE_LIMIT_FACTOR: '0',
  // The machine may be busy with other tests.
  REDIS_TIMEOUT: '5000',
  SHED_LAG: '0',
};

/** The whole service without a socket, on a database of its own; closed when the test ends. */
export async function buildTestApp(
  t: Test,
  { env = {}, override, databaseUrl, storesAnswer = true }: TestAppOptions = {},
): Promise<TestApp> {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-test-'));
  const url = databaseUrl ?? (await testDatabase(t)).url;
  const watched = leakWatch.watch(`the app of "${t.name}"`);
  const tracing = await tracerTo(t, watched);
  const [lines, trail]: [string[], string[]] = [[], []];
  const collect = (chunks: string[]) =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        chunks.push(chunk.toString());
        watched.heard('log', chunk);
        done();
      },
    });
  const config = loadConfig({ ...TEST_ENVIRONMENT, DATA_DIR: dataDir, ...env, ...prefixFor(url, env) });
  const logger = pino({ ...LINE_FORMAT, level: config.LOG_LEVEL }, collect(lines));
  const output = {
    openAudit: () => (line: string) => {
      trail.push(line);
      watched.heard('log', Buffer.from(line));
    },
    dropped: () => 0,
  };
  const composition = await compose(config, url, logger, output, tracing?.tracer);
  rememberConfiguration(env, dataDir);
  const app = await buildApp(override ? override(composition.app) : composition.app);
  app.server.on('listening', () => {
    watched.listensOn(app.listeningOrigin);
  });
  t.teardown(async () => {
    if (leakWatch.isOn) watched.heard('metrics', await composition.ops.metrics());
    await app.close();
    await composition.close();
    await tracing?.close();
    rememberConfiguration(env, dataDir);
    watched.check();
    rmSync(dataDir, { recursive: true, force: true });
  });
  if (storesAnswer) await until(async () => (await composition.ops.readiness()).ready);
  return {
    app,
    composition,
    databaseUrl: url,
    log: () => lines.join(''),
    audit: () => logLines(trail.join('')),
    async inject(options) {
      const response = await app.inject(options);
      if (leakWatch.isOn) leakWatch.exchanged(asText(options, response));
      return response;
    },
  };
}

/** The bytes that a socket would carry. */
function asText({ payload, headers = {}, url }: InjectOptions, { body }: LightMyRequestResponse): string {
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${String(value)}`);
  const sent =
    typeof payload === 'string' || Buffer.isBuffer(payload) ? String(payload) : JSON.stringify(payload);
  return [JSON.stringify(url), ...head, sent, body].join('\n');
}

/** Ids begin at 1 in every database, so each database needs its own Redis prefix. */
function prefixFor(databaseUrl: string, { REDIS_PREFIX }: Environment): Environment {
  return REDIS_PREFIX === undefined
    ? {}
    : { REDIS_PREFIX: `${REDIS_PREFIX}${new URL(databaseUrl).pathname}:` };
}
