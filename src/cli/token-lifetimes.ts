import { loadSettings, type Environment } from '../config/config.ts';
import { lifetimesOf, type Lifetimes } from '../domain/tokens/claims.ts';

/** The service's lifetimes of tokens. A command needs them to tell which tokens have expired. @throws ConfigError */
export function tokenLifetimes(env: Environment): Lifetimes {
  return lifetimesOf(loadSettings(env, 'ACCESS_TOKEN_TTL', 'REFRESH_TOKEN_TTL', 'SESSION_MAX_AGE'));
}
