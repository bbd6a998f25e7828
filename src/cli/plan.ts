import { BASE_MEMORY, loadConfig, memoryOf, NO_HASHES, type Environment } from '../config/config.ts';
import { COSTS, type Costs } from '../domain/sizing/costs.ts';
import { makePlan, type Settings } from '../domain/sizing/plan.ts';
import type { Command } from './command.ts';
import { readUsage } from './plan-options.ts';
import { describePlan } from './plan-text.ts';

/** `latchkey plan`: sizes an installation. It asks no store. */
export const run: Command = ({ env, values }) => {
  const usage = readUsage(values);
  const { settings, costs } = ownFigures(env);
  const plan = makePlan(usage, settings, costs);
  return Promise.resolve({ result: { usage, ...plan }, text: describePlan(usage, plan, settings) });
};

/** The settings of the environment that change a plan, and the costs with its password hash. @throws ConfigError */
function ownFigures(env: Environment): { settings: Settings; costs: Costs } {
  const { SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, HASH_CONCURRENCY, UV_THREADPOOL_SIZE } = env;
  const { DATABASE_POOL, SESSION_CACHE_TTL, REFRESH_TOKEN_TTL } = env;
  const hashing = { SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P, HASH_CONCURRENCY, UV_THREADPOOL_SIZE };
  const config = loadConfig({ ...hashing, DATABASE_POOL, SESSION_CACHE_TTL, REFRESH_TOKEN_TTL }, NO_HASHES);
  const usual = workOf(loadConfig({}, NO_HASHES));
  const login = (COSTS.replica.login * workOf(config)) / usual;
  return {
    settings: {
      processMemory: BASE_MEMORY,
      hashMemory: memoryOf(config).one,
      hashConcurrency: config.HASH_CONCURRENCY,
      databasePool: config.DATABASE_POOL,
      sessionCacheTtl: config.SESSION_CACHE_TTL,
      refreshTokenTtl: config.REFRESH_TOKEN_TTL,
    },
    costs: { ...COSTS, replica: { ...COSTS.replica, login } },
  };
}

/** The work of scrypt is proportional to this. */
function workOf(config: { SCRYPT_LOG_N: number; SCRYPT_R: number; SCRYPT_P: number }): number {
  return 2 ** config.SCRYPT_LOG_N * config.SCRYPT_R * config.SCRYPT_P;
}
