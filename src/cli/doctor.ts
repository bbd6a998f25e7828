import type { Config, Environment } from '../config/config.ts';
import { checkConfiguration, checkMemory, checkNode } from '../doctor/configuration.ts';
import { checkDatabase } from '../doctor/database.ts';
import type { Finding } from '../doctor/finding.ts';
import { checkIssuers } from '../doctor/issuers.ts';
import { checkKeyLife } from '../doctor/key-lifecycle.ts';
import { reportKeys } from '../doctor/key-report.ts';
import { checkKeys } from '../doctor/keys.ts';
import { checkRedisMark } from '../doctor/redis-mark.ts';
import { checkRedis } from '../doctor/redis.ts';
import { availableMemory } from '../runtime/memory.ts';
import type { Command } from './command.ts';

/** `latchkey doctor`. */
export const run: Command = async ({ env }) => {
  const findings = await examine(env);
  const healthy = findings.every(({ state }) => state !== 'fail');
  return { result: { healthy, findings }, text: describe(findings), isWell: healthy };
};

/** Runs all checks. Each finding says what to do. Changes nothing. */
async function examine(env: Environment): Promise<Finding[]> {
  const { config, findings } = checkConfiguration(env);
  if (!config) return findings;
  const keys = checkKeys(config, env, Date.now());
  const database = await checkDatabase(config);
  // Without the schema, no further check can read the records. Any other failure leaves them readable.
  const hasRecords = database.some(({ check, state }) => check === 'migrations' && state === 'ok');
  return [
    ...findings,
    checkNode(process.versions.node, Date.now()),
    checkMemory(config, availableMemory()),
    ...keys,
    ...(hasRecords ? await checkKeyRecords(config, env) : []),
    ...database,
    ...(hasRecords ? await checkIssuers(config) : []),
    ...(await checkRedis(config)),
    ...(hasRecords ? await checkRedisMark(config) : []),
  ];
}

/** Checks what the running replicas have recorded about the keys; nothing before the first start. */
async function checkKeyRecords(
  { DATABASE_URL, SIGNING_KEYS_DIR }: Config,
  env: Environment,
): Promise<Finding[]> {
  if (DATABASE_URL === undefined || SIGNING_KEYS_DIR === undefined) return [];
  const { keys, now } = await reportKeys(env, DATABASE_URL);
  return keys.some(({ state }) => state !== 'unseen') ? checkKeyLife(keys, now) : [];
}

/** Formats findings, one line each, failures last: a terminal shows the end. */
export function describe(findings: Finding[]): string {
  const isFailure = ({ state }: Finding) => Number(state === 'fail');
  return [...findings]
    .sort((one, other) => isFailure(one) - isFailure(other))
    .map(({ check, state, found, todo }) => {
      const line = `${state.padEnd(4)}  ${check}: ${found}`;
      return todo === undefined ? line : `${line}. To do: ${todo}`;
    })
    .join('\n');
}
