import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Manifest } from './kinds.ts';
import { readManifests, ROOT } from './render.ts';

export const CHART = join(ROOT, 'charts/latchkey');

/** The files of values, by the convention of chart-testing: ci/NAME-values.yaml. */
export const CASES = readdirSync(join(CHART, 'ci')).map((file) => file.replace(/-values\.yaml$/, ''));

export function valuesFile(name: string): string {
  return join(CHART, 'ci', `${name}-values.yaml`);
}

export function helm(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync('helm', args, { encoding: 'utf8', maxBuffer: 2 ** 24 });
  return { status, stdout, stderr };
}

/** Rendered text of a release `latchkey` in the namespace `latchkey`. @throws Error with helm's message. */
export function templateText(name: string, ...args: string[]): string {
  const { status, stdout, stderr } = helm(
    'template',
    'latchkey',
    CHART,
    '--namespace',
    'latchkey',
    '--values',
    valuesFile(name),
    ...args,
  );
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

export function template(name: string, ...args: string[]): Manifest[] {
  return readManifests(templateText(name, ...args));
}

/** Whether only `helm test` creates it. */
export function isTest({ metadata }: Manifest): boolean {
  return metadata.annotations?.['helm.sh/hook'] === 'test';
}

/** The pod of `helm test` follows the rules of Jobs. */
export function asJob(manifest: Manifest): Manifest {
  if (manifest.kind !== 'Pod') return manifest;
  const { metadata, spec } = manifest as Manifest & { spec: object };
  const job = { backoffLimit: 0, template: { metadata, spec } };
  return Object.assign({}, manifest, { apiVersion: 'batch/v1', kind: 'Job', spec: job });
}

/** A release of a case in the namespace `auth`. */
export function releaseOf(release: string, name: string, ...more: string[]): Manifest[] {
  const words = ['template', release, CHART, '--namespace', 'auth', '--values', valuesFile(name), ...more];
  const { status, stdout, stderr } = helm(...words);
  if (status !== 0) throw new Error(stderr);
  return readManifests(stdout);
}
