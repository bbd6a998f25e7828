import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { buildApp } from '../../src/app.ts';
import { compose } from '../../src/composition/compose.ts';
import { loadConfig, NO_HASHES, type Environment } from '../../src/config/config.ts';
import type { Right } from '../../src/domain/rights.ts';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';
import { createLongLived, signUp, type Pair, type Target } from '../../test/support/client.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { redisMissing, testRedis } from '../../test/support/redis.ts';
import { startRedis } from '../../test/support/redis-server.ts';
import { aRegisteredService, type TestService } from '../../test/support/registered-service.ts';
import { silentLogger, silentOutput } from '../../test/support/silent-log.ts';
import { toolsMissing } from '../../test/support/tools.ts';
import { amount } from './settings.ts';

const DEFAULTS = loadConfig({}, NO_HASHES);
const { SCRYPT_LOG_N: logN, SCRYPT_R: r, SCRYPT_P: p } = DEFAULTS;
/** The cost of a hash in production, and how many are computed at once. */
export const PRODUCTION_COST = { logN, r, p };
export const { HASH_CONCURRENCY } = DEFAULTS;

/** Signups in flight. */
const AT_ONCE = 16;

const UNREACHED = {
  RATE_LIMIT_LOGIN: '1000000/60',
  RATE_LIMIT_SIGNUP: '1000000/60',
  HASH_QUEUE_TIMEOUT: '60',
  SHED_LAG: '10000',
};

/** The surroundings of a run: a database, a Redis prefix, keys and a folder, all removed afterwards. */
export interface World {
  folder: string;
  /** The environment of the service: production, with every default. */
  env: NodeJS.ProcessEnv;
  /** The same, with limits that are checked but never reached. */
  unlimited: NodeJS.ProcessEnv;
  /** How many sessions the row of many has (settings.ts). */
  manySessions: number;
  /** Creates accounts, each with one session. */
  signUpMany(count: number): Promise<Pair[]>;
  /** Sessions that are only verified, the same ones at each call within minutes. */
  sessions(count: number): Promise<Pair[]>;
  /** Creates long-lived tokens, one in each of these sessions. */
  createLongLivedMany(sessions: readonly Pair[]): Promise<string[]>;
  /** Registers a service. @param rights by default it may introspect. */
  registerClient(rights?: readonly Right[], audience?: string): Promise<TestService>;
  close(): Promise<void>;
}

/**
 * @param changes settings that differ from production's.
 * @throws Error if PostgreSQL or Redis is unreachable: the bench does not measure the embedded stores.
 */
export async function makeWorld(
  changes: Record<string, string> = {},
  manySessions = amount('BENCH_MANY_SESSIONS', false),
): Promise<World> {
  const closers: (() => unknown)[] = [];
  const scope = { teardown: (closer: () => unknown) => closers.unshift(closer) } as unknown as Test;
  const close = async () => {
    for (const closer of closers) await closer();
  };

  try {
    const folder = mkdtempSync(join(tmpdir(), 'latchkey-bench-'));
    closers.unshift(() => {
      rmSync(folder, { recursive: true });
    });
    const keys = join(folder, 'keys');
    mkdirSync(keys);
    writeFileSync(join(keys, '0001.pem'), generateSigningKey());
    const redis = await redisOf(scope);
    const env = {
      DATABASE_URL: (await testDatabase(scope)).url,
      REDIS_URL: redis.url,
      REDIS_PREFIX: redis.prefix,
      SIGNING_KEYS_DIR: keys,
      REFRESH_TOKEN_SECRET: randomBytes(32).toString('base64url'),
      ISSUER: 'https://auth.example.com',
      PORT: '0',
      OPS_PORT: '0',
      DRAIN_DELAY: '0',
    };
    const signUpMany = (count: number) => withApp(env, (app) => repeat(count, () => signUp(app)));
    const production = { PATH: process.env.PATH, NODE_ENV: 'production', ...env, ...changes };
    return {
      folder,
      env: production,
      unlimited: { ...production, ...UNREACHED },
      manySessions,
      signUpMany,
      sessions: sharedSessions(signUpMany),
      createLongLivedMany: (sessions) =>
        withApp(env, async (app) => {
          const tokens: string[] = [];
          for (const { access_token } of sessions)
            tokens.push((await createLongLived(app, access_token)).longlived_token);
          return tokens;
        }),
      registerClient: (rights, audience) =>
        aRegisteredService(env.DATABASE_URL, `bench-${randomBytes(4).toString('hex')}`, rights, audience),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Uses TEST_REDIS_URL, or starts its own Redis if possible. A kernel that shares its cores by login session keeps the
 * Redis of another session waiting for up to 200 ms while hashes fill all cores.
 */
async function redisOf(t: Test): Promise<{ url: string; prefix: string }> {
  if (process.env.TEST_REDIS_URL === undefined && !toolsMissing('bash', 'redis-server'))
    return { url: (await startRedis(t)).url, prefix: 'latchkey:' };
  if (redisMissing) throw new Error(redisMissing);
  return testRedis(t);
}

/** Long enough for one part of a run, and far below the life of an access token, in milliseconds. */
const SHARED_FOR = 300_000;

function sharedSessions(signUpMany: World['signUpMany']): World['sessions'] {
  let shared: Pair[] = [];
  let since = 0;
  return async (count) => {
    if (performance.now() - since > SHARED_FOR) {
      shared = [];
      since = performance.now();
    }
    if (shared.length < count) shared.push(...(await signUpMany(count - shared.length)));
    return shared.slice(0, count);
  };
}

/** An app in this process with the cheapest hash and no limits: what it does is not part of the measurement. */
async function withApp<Result>(env: Environment, use: (app: Target) => Promise<Result>): Promise<Result> {
  const config = loadConfig({
    ...env,
    SCRYPT_LOG_N: '4',
    RATE_LIMIT_SIGNUP: '0',
    RATE_LIMIT_LLT: '0',
    RATE_LIMIT_LLT_NETWORK: '0',
    HASH_QUEUE: '10000',
    SHED_LAG: '0',
  });
  const composition = await compose(config, config.DATABASE_URL ?? '', silentLogger, silentOutput);
  const app = await buildApp(composition.app);
  while (!(await composition.ops.readiness()).ready);
  try {
    return await use(app);
  } finally {
    await app.close();
    await composition.close();
  }
}

/** Calls `make` so often, some at once. */
async function repeat<Result>(count: number, make: () => Promise<Result>): Promise<Result[]> {
  const results: Result[] = [];
  let left = count;
  const worker = async () => {
    while (left-- > 0) results.push(await make());
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return results;
}
