import { join } from 'node:path';

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
