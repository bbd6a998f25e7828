import { ConfigError, loadConfig, type Config, type Environment } from '../config.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

/** @returns null as the configuration where it cannot be used: then nothing else can be looked at. */
export function checkConfiguration(env: Environment): { config: Config | null; findings: Finding[] } {
  try {
    const config = loadConfig(env);
    return { config, findings: [judgeEnvironment(config), judgeDrain(config)] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const todo = 'put it right (README, "Configuration"); nothing else has been looked at';
    return { config: null, findings: error.problems.map((problem) => fail('configuration', problem, todo)) };
  }
}

function judgeEnvironment({ production, embedded }: Config): Finding {
  if (production) return ok('configuration', 'complete for production');
  const found = ['NODE_ENV is not production', ...embedded].join('; ');
  return warn('configuration', found, 'for production set NODE_ENV=production, which refuses all that');
}

function judgeDrain({ DRAIN_DELAY: delay, SHUTDOWN_TIMEOUT: timeout }: Config): Finding {
  const found = `after SIGTERM it serves on for ${delay} s, and what is left after ${timeout} s is cut`;
  if (delay < timeout) return ok('drain', found);
  return warn(
    'drain',
    found,
    'make SHUTDOWN_TIMEOUT longer than DRAIN_DELAY, or requests are cut at each rollout',
  );
}
