import type { Finding } from '../../src/doctor/finding.ts';
import { loadConfig, type Config, type Environment } from '../../src/config.ts';
import { latchkey } from './latchkey.ts';

/** Findings by check; of checks of one server each, the part in brackets goes. */
export type Findings = Record<string, Pick<Finding, 'state' | 'found'>[]>;

export function byCheck(findings: Finding[]): Findings {
  const found: Findings = {};
  for (const { check, state, found: text } of findings) {
    (found[check.replace(/ \(.*\)$|[\d.]+:\d+$/, '').trim()] ??= []).push({ state, found: text });
  }
  return found;
}

/** A configuration of nothing but these. */
export function aConfig(env: Environment = {}): Config {
  return loadConfig({ SCRYPT_LOG_N: '4', ...env });
}

/** The command itself, as a process. */
export async function runDoctor(env: Environment) {
  const { code, stdout, stderr } = await latchkey(['doctor', '--json'], { SCRYPT_LOG_N: '4', ...env });
  const { healthy, findings } = JSON.parse(stdout) as { healthy: boolean; findings: Finding[] };
  return { code, stdout, stderr, healthy, findings: byCheck(findings) };
}
