import { randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { buildApp } from '../../src/app.ts';
import { compose } from '../../src/compose.ts';
import { loadConfig, type Environment } from '../../src/config.ts';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';
import { signUp, type Pair } from '../support/client.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';

/** What a run works in: a database, a corner of Redis, keys and a folder, all its own and gone afterwards. */
export interface World {
  folder: string;
  /** The environment of both servers: a production's, with every default. */
  env: NodeJS.ProcessEnv;
  /** Makes accounts, each with one session. */
  signUpMany(count: number): Promise<Pair[]>;
  close(): Promise<void>;
}

/** @throws Error where PostgreSQL or Redis cannot be reached: the embedded stores are not what is measured. */
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
 * The one at TEST_REDIS_URL, or one of our own where it can be started: a kernel that shares out its cores by session
 * keeps a Redis of another session waiting for up to 200 ms while hashes fill all cores.
 */
async function redisOf(t: Test): Promise<{ url: string; prefix: string }> {
  if (process.env.TEST_REDIS_URL === undefined && !toolsMissing('bash', 'redis-server'))
    return { url: (await startRedis(t)).url, prefix: 'latchkey:' };
  if (redisMissing) throw new Error(redisMissing);
  return testRedis(t);
}

/** Signs up in this process with the cheapest hash: it is part of neither path that is measured. */
async function signUpMany(env: Environment, count: number): Promise<Pair[]> {
  const config = loadConfig({ ...env, SCRYPT_LOG_N: '4', RATE_LIMIT_SIGNUP: '0', SHED_LAG: '0' });
  const composition = await compose(config, config.DATABASE_URL ?? '', pino({ level: 'silent' }));
  const app = await buildApp(composition.app);
  while (!(await composition.ops.readiness()).ready);
  const pairs: Pair[] = [];
  for (let i = 0; i < count; i++) pairs.push(await signUp(app));
  await app.close();
  await composition.close();
  return pairs;
}
