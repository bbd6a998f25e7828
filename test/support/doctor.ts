import type { Finding } from '../../src/doctor/finding.ts';
import { loadConfig, type Config, type Environment } from '../../src/config/config.ts';
import { NO_DATA_DIR } from './environment.ts';
import { latchkey } from './latchkey.ts';
import { until } from './until.ts';

/** Findings by check, without the server in brackets. */
export type Findings = Record<string, Omit<Finding, 'check'>[]>;

export function byCheck(findings: Finding[]): Findings {
  const found: Findings = {};
  for (const { check, ...finding } of findings) {
    (found[check.replace(/ \(.*\)$|[\d.]+:\d+$/, '').trim()] ??= []).push(finding);
  }
  return found;
}

/** Settings that keep other load of this machine out of the findings. */
const PATIENT = { SCRYPT_LOG_N: '4', REDIS_TIMEOUT: '5000', DATA_DIR: NO_DATA_DIR };

/** A configuration with these settings only. */
export function aConfig(env: Environment = {}): Config {
  return loadConfig({ ...PATIENT, ...env });
}

/** Waits until the master accepts writes: with `min-replicas-to-write` it refuses them while its replicas lag. */
export async function waitUntilWritable(find: () => Promise<Findings>): Promise<Findings> {
  let found = await find();
  await until(async () => {
    if (found.redis?.[0]?.state === 'ok') return true;
    found = await find();
    return false;
  });
  return found;
}

/** Runs the command as a process. */
export async function runDoctor(env: Environment) {
  const { code, stdout, stderr } = await latchkey(['doctor', '--json'], { ...PATIENT, ...env });
  const { healthy, findings } = JSON.parse(stdout) as { healthy: boolean; findings: Finding[] };
  return { code, stdout, stderr, healthy, findings: byCheck(findings) };
}
