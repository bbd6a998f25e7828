import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import type { FastifyInstance, InjectOptions, LightMyRequestResponse } from 'fastify';
import { pino } from 'pino';
import type { Test } from 'tap';
import { buildApp, type AppOptions } from '../../src/app.ts';
import { compose, type Composition } from '../../src/compose.ts';
import { loadConfig, type Environment } from '../../src/config.ts';
import { testDatabase } from './postgres.ts';
import { until } from './until.ts';

export interface TestApp {
  app: FastifyInstance;
  composition: Composition;
  databaseUrl: string;
  /** Everything that was logged. */
  log(): string;
  inject(options: InjectOptions): Promise<LightMyRequestResponse>;
}

interface TestAppOptions {
  /** Variables on top of the tests' own. */
  env?: Environment;
  /** Replaces parts of what was composed. */
  override?: (options: AppOptions) => AppOptions;
  databaseUrl?: string;
  /** False where a store is meant to be away. */
  storesAnswer?: boolean;
}

/** What every test starts from: quick hashes and no limits, unless it says otherwise. */
export const TEST_ENVIRONMENT: Environment = {
  SCRYPT_LOG_N: '4',
  RATE_LIMIT_LOGIN: '0',
  RATE_LIMIT_SIGNUP: '0',
  // The machine may be busy with other tests.
  SHED_LAG: '0',
};

/** The whole service without a socket, on a database of its own; closed when the test ends. */
export async function buildTestApp(
  t: Test,
  { env = {}, override, databaseUrl, storesAnswer = true }: TestAppOptions = {},
): Promise<TestApp> {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-test-'));
  const url = databaseUrl ?? (await testDatabase(t)).url;
  const lines: string[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push(chunk.toString());
      done();
    },
  });
  const config = loadConfig({ ...TEST_ENVIRONMENT, DATA_DIR: dataDir, ...env, ...prefixFor(url, env) });
  const composition = await compose(config, url, pino({ level: 'info' }, stream));
  const app = await buildApp(override ? override(composition.app) : composition.app);
  t.teardown(async () => {
    await app.close();
    await composition.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  if (storesAnswer) await until(async () => (await composition.ops.readiness()).ready);
  return {
    app,
    composition,
    databaseUrl: url,
    log: () => lines.join(''),
    inject: (options) => app.inject(options),
  };
}

/** Ids begin at 1 in every database: each needs a corner of its own in Redis. */
function prefixFor(databaseUrl: string, { REDIS_PREFIX }: Environment): Environment {
  return REDIS_PREFIX === undefined
    ? {}
    : { REDIS_PREFIX: `${REDIS_PREFIX}${new URL(databaseUrl).pathname}:` };
}
