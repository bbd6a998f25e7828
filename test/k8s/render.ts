import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Test } from 'tap';
import { parse, parseAllDocuments } from 'yaml';
import type { Manifest } from './kinds.ts';

export const ROOT = new URL('../../../', import.meta.url).pathname;

export const OVERLAYS = ['dev', 'production'];
export const COMPONENTS = [
  'gateway',
  'gateway-internal',
  'ingress',
  'monitoring',
  'network-policy',
  'pgbouncer',
];

/** The output of `kubectl kustomize`. @param folder relative to the root. @throws Error with kubectl's message. */
export function render(folder: string): Manifest[] {
  const { status, stdout, stderr } = spawnSync('kubectl', ['kustomize', join(ROOT, folder)], {
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(stderr);
  return readManifests(stdout);
}

/** The base or an overlay, with more components. */
export function renderWith(t: Test, folder: string, components: string[]): Manifest[] {
  const dir = scratch(t);
  const from = (path: string) => relative(dir, join(ROOT, path));
  const kustomization = {
    apiVersion: 'kustomize.config.k8s.io/v1beta1',
    kind: 'Kustomization',
    resources: [from(folder)],
    components: components.map((name) => from(`k8s/components/${name}`)),
  };
  writeFileSync(join(dir, 'kustomization.yaml'), JSON.stringify(kustomization));
  return render(relative(ROOT, dir));
}

export interface Kustomization {
  resources: string[];
  components: string[];
  configMapGenerator: { name: string; literals: string[] }[];
  patches: object[];
}

/** Overlays/production as somebody edits it. @param more is added to its lists, with paths from its folder. */
export function productionWith(t: Test, more: Partial<Kustomization>): Manifest[] {
  const overlay = join(ROOT, 'k8s/overlays/production');
  const own = parse(readFileSync(join(overlay, 'kustomization.yaml'), 'utf8')) as Kustomization;
  const dir = scratch(t);
  const from = (path: string) => relative(dir, join(overlay, path));
  copyFileSync(join(overlay, 'namespace.yaml'), join(dir, 'namespace.yaml'));
  for (const { name, literals } of more.configMapGenerator ?? [])
    own.configMapGenerator.find((it) => it.name === name)?.literals.push(...literals);
  const kustomization = {
    ...own,
    resources: own.resources.map((path) => (path === 'namespace.yaml' ? path : from(path))),
    components: [...own.components, ...(more.components ?? [])].map(from),
    patches: [...own.patches, ...(more.patches ?? [])],
  };
  writeFileSync(join(dir, 'kustomization.yaml'), JSON.stringify(kustomization));
  return render(relative(ROOT, dir));
}

/** All overlays, and each component with the base, by folder name. */
export function renderAll(t: Test): [name: string, manifests: Manifest[]][] {
  return [
    ['base', render('k8s/base')],
    ...OVERLAYS.map((name): [string, Manifest[]] => [`overlays/${name}`, render(`k8s/overlays/${name}`)]),
    ...COMPONENTS.map((name): [string, Manifest[]] => [
      `components/${name}`,
      renderWith(t, 'k8s/base', [name]),
    ]),
  ];
}

/** A folder for one test inside the project, so that it can resolve paths and packages. */
export function scratch(t: Test): string {
  const dir = mkdtempSync(join(ROOT, 'dist/k8s-'));
  t.teardown(() => {
    rmSync(dir, { recursive: true, force: true });
  });
  return dir;
}

/** @throws Error for invalid YAML or a repeated key. */
export function readManifests(text: string): Manifest[] {
  return parseAllDocuments(text, { uniqueKeys: true }).flatMap((document) => {
    if (document.errors[0]) throw document.errors[0];
    const manifest = document.toJS() as Manifest | null;
    return manifest === null ? [] : [manifest];
  });
}
