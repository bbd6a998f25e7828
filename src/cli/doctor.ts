import { availableMemory, type Environment } from '../config.ts';
import { checkConfiguration } from '../doctor/configuration.ts';
import { checkDatabase } from '../doctor/database.ts';
import type { Finding } from '../doctor/finding.ts';
import { checkKeys } from '../doctor/keys.ts';
import { checkMemory } from '../doctor/memory.ts';
import { checkRedis } from '../doctor/redis.ts';
import type { Command } from './command.ts';

/** `latchkey doctor`. */
export const run: Command = async ({ env }) => {
  const findings = await examine(env);
  const healthy = findings.every(({ state }) => state !== 'fail');
  return { result: { healthy, findings }, text: describe(findings), isWell: healthy };
};

/** Everything that can be looked at from here, with what to do about it. Changes nothing. */
async function examine(env: Environment): Promise<Finding[]> {
  const { config, findings } = checkConfiguration(env);
  if (!config) return findings;
  return [
    ...findings,
    checkMemory(config, availableMemory()),
    ...checkKeys(config, env, Date.now()),
    ...(await checkDatabase(config)),
    ...(await checkRedis(config)),
  ];
}

/** A line a finding. */
export function describe(findings: Finding[]): string {
  return findings
    .map(({ check, state, found, todo }) => {
      const line = `${state.padEnd(4)}  ${check}: ${found}`;
      return todo === undefined ? line : `${line}. To do: ${todo}`;
    })
    .join('\n');
}
