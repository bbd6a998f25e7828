import { databaseVariables, loadConfig, NO_HASHES, type Environment } from '../config/config.ts';
import { lifetimesOf, type Lifetimes } from '../domain/tokens/claims.ts';

/** The service's lifetimes of tokens. A command needs them to tell which tokens have expired. @throws ConfigError */
export function tokenLifetimes(env: Environment): Lifetimes {
  const { REFRESH_TOKEN_TTL, SESSION_MAX_AGE } = env;
  const config = loadConfig({ ...databaseVariables(env), REFRESH_TOKEN_TTL, SESSION_MAX_AGE }, NO_HASHES);
  return lifetimesOf(config);
}
