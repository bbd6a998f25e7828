import type { Finding } from '../../src/doctor/finding.ts';
import { loadConfig, type Config, type Environment } from '../../src/config.ts';
import { latchkey } from './latchkey.ts';
import { until } from './until.ts';

/** Findings by check; of checks of one server each, the part in brackets goes. */
export type Findings = Record<string, Pick<Finding, 'state' | 'found'>[]>;

export function byCheck(findings: Finding[]): Findings {
  const found: Findings = {};
  for (const { check, state, found: text } of findings) {
    (found[check.replace(/ \(.*\)$|[\d.]+:\d+$/, '').trim()] ??= []).push({ state, found: text });
  }
  return found;
}

/** What else is at work on the machine is not what is found. */
const PATIENT = { SCRYPT_LOG_N: '4', REDIS_TIMEOUT: '5000' };

/** A configuration of nothing but these. */
export function aConfig(env: Environment = {}): Config {
  return loadConfig({ ...PATIENT, ...env });
}

/** Once the master takes writes: one that waits for replicas refuses them while they are late. */
export async function onceWritable(find: () => Promise<Findings>): Promise<Findings> {
  let found = await find();
  await until(async () => {
    if (found.redis?.[0]?.state === 'ok') return true;
    found = await find();
    return false;
  });
  return found;
}

/** The command itself, as a process. */
export async function runDoctor(env: Environment) {
  const { code, stdout, stderr } = await latchkey(['doctor', '--json'], { ...PATIENT, ...env });
  const { healthy, findings } = JSON.parse(stdout) as { healthy: boolean; findings: Finding[] };
  return { code, stdout, stderr, healthy, findings: byCheck(findings) };
}
