import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { buildApp } from '../../src/app.ts';
import { compose } from '../../src/composition/compose.ts';
import { loadConfig, type Environment } from '../../src/config/config.ts';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';
import { signUp, type Pair } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { silentLogger, silentOutput } from '../support/silent-log.ts';
import { toolsMissing } from '../support/tools.ts';

/** The surroundings of a run: a database, a Redis prefix, keys and a folder, all removed afterwards. */
export interface World {
  folder: string;
  /** The environment of both servers: production, with every default. */
  env: NodeJS.ProcessEnv;
  /** Creates accounts, each with one session. */
  signUpMany(count: number): Promise<Pair[]>;
  close(): Promise<void>;
}

/** @throws Error if PostgreSQL or Redis is unreachable: the bench does not measure the embedded stores. */
export async function makeWorld(): Promise<World> {
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
    return {
      folder,
      env: { PATH: process.env.PATH, NODE_ENV: 'production', ...env },
      signUpMany: (count) => signUpMany(env, count),
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

/** Signs up in this process with the cheapest hash: signup is not part of the measurement. */
async function signUpMany(env: Environment, count: number): Promise<Pair[]> {
  const config = loadConfig({
    ...env,
    SCRYPT_LOG_N: '4',
    RATE_LIMIT_SIGNUP: '0',
    SHED_LAG: '0',
  });
  const composition = await compose(config, config.DATABASE_URL ?? '', silentLogger, silentOutput);
  const app = await buildApp(composition.app);
  while (!(await composition.ops.readiness()).ready);
  const pairs: Pair[] = [];
  for (let i = 0; i < count; i++) pairs.push(await signUp(app));
  await app.close();
  await composition.close();
  return pairs;
}
