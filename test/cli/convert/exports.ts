import { join } from 'node:path';
import { parseArguments } from '../../../src/cli/arguments.ts';
import type { Outcome } from '../../../src/cli/command.ts';
import { convertUsers } from '../../../src/cli/convert/convert.ts';
import type { Environment } from '../../../src/config/config.ts';

export const FOLDER = new URL('../../../../test/cli/convert/exports/', import.meta.url).pathname;

/** An export of each system (exports/README.md), with what `--with` takes. */
const FILES = {
  keycloak: ['keycloak.json'],
  auth0: ['auth0.ndjson', 'auth0-hashes.ndjson'],
  firebase: ['firebase.json', 'firebase-parameters.txt'],
  django: ['django.json'],
  wordpress: ['wordpress.json'],
  supabase: ['supabase.jsonl'],
} as const;

export type SystemName = keyof typeof FILES;

export const SYSTEM_NAMES = Object.keys(FILES) as SystemName[];

/** The paths of a system's export, and of the file for `--with` if it has one. */
export function filesOf(system: SystemName): { input: string; withFile: string | undefined } {
  const [input, withFile] = FILES[system] as readonly [string, string?];
  return { input: join(FOLDER, input), withFile: withFile && join(FOLDER, withFile) };
}

/** Runs the command in this process. @param args after `user convert`. @throws what the command throws */
export async function convert(
  args: readonly string[],
  env: Environment = {},
): Promise<{ outcome: Outcome; findings: Finding[] }> {
  const { values, positionals } = parseArguments(['user', 'convert', ...args]);
  const { signal } = new AbortController();
  const outcome = await convertUsers({
    env,
    words: positionals.slice(2),
    values,
    note: () => undefined,
    stopped: () => signal,
  });
  return { outcome, findings: (outcome.result as { findings: Finding[] }).findings };
}

export interface Finding {
  kind: string;
  reason: string;
  count: number;
  places: string[];
}
