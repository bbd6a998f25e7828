import { ConfigError, loadConfig, type Config, type Environment } from '../config/config.ts';
import { transportWarnings } from '../config/transport.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

/** @returns `config: null` if the configuration is unusable; then no other check can run. */
export function checkConfiguration(env: Environment): { config: Config | null; findings: Finding[] } {
  try {
    const config = loadConfig(env);
    const findings = [judgeEnvironment(config), judgeDrain(config)];
    return { config, findings: [...findings, ...judgeProxies(config), ...judgeTransport(config)] };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    const todo = 'fix it (docs/configuration.md); no other check has run';
    return { config: null, findings: error.problems.map((problem) => fail('configuration', problem, todo)) };
  }
}

function judgeEnvironment({ production, embedded }: Config): Finding {
  if (production) return ok('configuration', 'complete for production');
  const found = ['NODE_ENV is not production', ...embedded].join('; ');
  return warn(
    'configuration',
    found,
    'for production set NODE_ENV=production, which does not allow these defaults',
  );
}

function judgeTransport(config: Config): Finding[] {
  return transportWarnings(config).map(({ variable, found, todo }) =>
    warn('transport', `${variable}: ${found}`, todo),
  );
}

function judgeDrain({ DRAIN_DELAY: delay, SHUTDOWN_TIMEOUT: timeout }: Config): Finding {
  const found = `after SIGTERM it serves for ${delay} s more, and cuts requests that are in flight after ${timeout} s`;
  if (delay < timeout) return ok('drain', found);
  return warn('drain', found, 'make SHUTDOWN_TIMEOUT longer than DRAIN_DELAY, or each rollout cuts requests');
}

function judgeProxies({ warnings }: Config): Finding[] {
  return warnings.map((warning) => warn('configuration', warning, 'fix it, unless you intend it'));
}
