import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { parseArguments } from '../../../src/cli/arguments.ts';
import { CommandError, type Outcome } from '../../../src/cli/command.ts';
import { convertUsers } from '../../../src/cli/convert/convert.ts';
import type { Environment } from '../../../src/config/config.ts';
import { testFolder } from '../../support/folder.ts';

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

export const textOf = (system: SystemName) => readFileSync(filesOf(system).input, 'utf8');

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

export type Fields = Record<string, unknown>;

/** Converts a file with this content. @returns the report, and the lines that were written */
export async function converted(t: Test, system: SystemName, content: string | Buffer, ...more: string[]) {
  const folder = testFolder(t);
  const [input, output] = [join(folder, 'in'), join(folder, 'out')];
  writeFileSync(input, content);
  const { withFile } = filesOf(system);
  const args = more.includes('--with') || withFile === undefined ? more : [...more, '--with', withFile];
  try {
    const { findings, outcome } = await convert(['--from', system, input, output, ...args]);
    const lines = readFileSync(output, 'utf8').split('\n').slice(0, -1);
    return { findings, outcome, lines: lines.map((line) => JSON.parse(line) as Fields) };
  } catch (error) {
    t.notOk(existsSync(output), 'nothing is left of a conversion that failed');
    throw error;
  }
}

export const refused = (message: RegExp) => ({ constructor: CommandError, message });

/** The first account of an export, once with each of these changes and an address of its own, as an export. */
export function exportWith(system: SystemName, ...changes: Fields[]): string {
  const text = textOf(system);
  const isOfLines = system === 'auth0' || system === 'supabase';
  const document = JSON.parse(isOfLines ? (text.split('\n')[0] ?? '') : text) as Fields;
  const [first] = (Array.isArray(document) ? document : (document.users ?? [document])) as Fields[];
  const address = system === 'wordpress' ? 'user_email' : 'email';
  const accounts = changes.map((change, i) => ({ ...first, [address]: `u${i}@example.com`, ...change }));
  return isOfLines
    ? accounts.map((account) => JSON.stringify(account)).join('\n')
    : JSON.stringify(Array.isArray(document) ? accounts : { ...document, users: accounts });
}

const OTP = { subType: 'totp', digits: 6, period: 30, algorithm: 'HmacSHA1' };

/** A credential of Keycloak. */
export const otp = (value: unknown, data: object = {}) => ({
  type: 'otp',
  credentialData: JSON.stringify({ ...OTP, ...data }),
  secretData: JSON.stringify({ value }),
});
