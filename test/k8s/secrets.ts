import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { allOf } from './kinds.ts';
import { readManifests, ROOT, scratch } from './render.ts';

/** Secrets by name, each with its contents by file name. */
export type Secrets = Record<string, Record<string, string>>;

/** The folder of Secrets of k8s/README.md, created and changed by its commands. */
export interface SecretFolder {
  path: string;
  /** Runs the n-th block of sh below a heading. @param today replaces the date. */
  run(heading: string, n?: number, today?: string): void;
  /** All input of `kubectl apply` so far. */
  applied(): Secrets;
}

/** What a terminal for production says first. */
export const PRODUCTION = { overlay: 'production', namespace: 'latchkey' };

/** A wrapper of the real kubectl: `apply` appends its input to a file. */
const KUBECTL = `#!/usr/bin/env bash
case "$*" in
  *'apply -f k8s/overlays/production/namespace.yaml') ;;
  *'apply -f -') cat >>"$APPLIED"; echo --- >>"$APPLIED" ;;
  *) PATH=$REAL_PATH exec kubectl "$@" ;;
esac
`;

/** A wrapper of the real `date` that returns the given day. */
const DATE = `#!/usr/bin/env bash
PATH=$REAL_PATH exec date \${TODAY:+--date="$TODAY"} "$@"
`;

export function secretFolder(t: Test): SecretFolder {
  const home = scratch(t);
  const bin = join(home, 'bin');
  const applied = join(home, 'applied.yaml');
  mkdirSync(bin);
  for (const [name, script] of Object.entries({ kubectl: KUBECTL, date: DATE })) {
    writeFileSync(join(bin, name), script);
    chmodSync(join(bin, name), 0o755);
  }
  const { PATH = '' } = process.env;
  const env = { HOME: home, PATH: `${bin}:${PATH}`, REAL_PATH: PATH, APPLIED: applied, ...PRODUCTION };
  return {
    path: join(home, 'latchkey-secrets'),
    run(heading, n = 0, today = '') {
      const script = shellBlocks(heading)[n];
      if (script === undefined) throw new Error(`no block ${n} below ${heading}`);
      rmSync(applied, { force: true });
      const options = { cwd: home, env: { ...env, TODAY: today }, input: script, encoding: 'utf8' } as const;
      const { status, stderr } = spawnSync('bash', ['-euo', 'pipefail'], options);
      if (status !== 0) throw new Error(stderr);
    },
    applied: () => (existsSync(applied) ? readSecrets(readFileSync(applied, 'utf8')) : {}),
  };
}

/** A new folder, created by the README's commands with the trial stores' addresses. */
export function madeSecrets(t: Test): Secrets {
  const folder = secretFolder(t);
  folder.run('Secrets', 0);
  folder.run('Secrets', 1);
  folder.run('Secrets', 2);
  return folder.applied();
}

/** Writes a Secret's files as they are mounted. */
export function writeSecret(folder: string, files: Record<string, string>): void {
  mkdirSync(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
}

function readSecrets(text: string): Secrets {
  const secrets = allOf(readManifests(text), 'Secret').map(({ metadata, data }) => {
    const files = Object.entries(data).map(([name, value]) => [
      name,
      Buffer.from(value, 'base64').toString(),
    ]);
    return [metadata.name, Object.fromEntries(files)] as const;
  });
  return Object.fromEntries(secrets);
}

/** The blocks of sh below a heading of k8s/README.md, without the indentation of a list. */
export function shellBlocks(heading: string): string[] {
  const readme = readFileSync(join(ROOT, 'k8s/README.md'), 'utf8');
  const [, section] = new RegExp(`^## ${heading}$(.*?)(?=^## |$(?![^]))`, 'ms').exec(readme) ?? [];
  if (section === undefined) throw new Error(`k8s/README.md has no heading ${heading}`);
  return [...section.matchAll(/^( *)```sh\n(.*?)^ *```$/gms)].map(([, indent = '', block = '']) =>
    block.replace(new RegExp(`^${indent}`, 'gm'), ''),
  );
}
