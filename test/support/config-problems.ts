import { ConfigError, loadConfig, type Environment } from '../../src/config/config.ts';

/** The problems of an environment, by default on a machine with enough memory. */
export function problemsOf(env: Environment, memory = 64 * 1024 ** 3): readonly string[] {
  try {
    loadConfig(env, memory);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return error.problems;
    throw error;
  }
}
