import { ConfigError, loadConfig, type Config, type Environment, memoryOf, mib } from '../config/config.ts';
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

/** Above this share of the limit, too little is left for requests and connections. */
const FULL = 0.85;

/** Warns of too little headroom. Above the limit itself, the configuration check fails. @param limit bytes. */
export function checkMemory(config: Config, limit: number): Finding {
  const { one, needed } = memoryOf(config);
  const found =
    `${config.HASH_CONCURRENCY} hashes at once of ${mib(one)} each and the process need ${mib(needed)} ` +
    `of ${mib(limit)}`;
  if (needed <= FULL * limit) return ok('memory', found);
  return warn('memory', found, 'raise the memory limit, or lower HASH_CONCURRENCY');
}

/** The day after which a release of Node gets no fixes of security faults (nodejs.org/en/about/previous-releases). */
const END_OF_LIFE: Readonly<Record<string, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
};

/** @param version such as 24.1.0. @param now ms since 1970. */
export function checkNode(version: string, now: number): Finding {
  const [major = ''] = version.split('.');
  const end = END_OF_LIFE[major];
  if (end === undefined) return ok('node', `Node ${version}`);
  if (now <= Date.parse(`${end}T23:59:59Z`)) return ok('node', `Node ${version} gets fixes until ${end}`);
  return warn(
    'node',
    `Node ${version} has had no security fixes since ${end}`,
    'run on Node 24, as the image does',
  );
}
