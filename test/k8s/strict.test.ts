import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import type { Manifest } from './kinds.ts';
import { COMPONENTS, OVERLAYS, render, renderAll, renderWith, ROOT, scratch } from './render.ts';
import { strictly } from './strict.ts';

const skip = toolsMissing('kubectl');

/** Names of fields and places in lists, from the outside in. */
type Path = (string | number)[];

/** Below these, names are free. */
const FREE = ['annotations', 'data', 'labels', 'limits', 'matchLabels', 'requests', 'selector'];

test('every overlay and component is of Kubernetes’ types', { skip }, async (t) => {
  t.strictSame(folders('k8s/components'), COMPONENTS, 'every component is looked at');
  t.strictSame(folders('k8s/overlays'), OVERLAYS, 'every overlay is looked at');
  const all = renderAll(t).flatMap(([name, manifests]) => manifests.map((manifest) => ({ name, manifest })));
  const problems = await strictly(
    t,
    all.map(({ manifest }) => manifest),
  );
  for (const [i, { name, manifest }] of all.entries()) {
    t.strictSame(problems[i], [], `${name}: ${manifest.kind} ${manifest.metadata.name}`);
  }
});

test('a misspelt field is found, whichever it is', { skip }, async (t) => {
  const manifests = renderWith(t, 'k8s/overlays/production', ['pgbouncer', 'postgres']);
  const misspelt = manifests.flatMap((manifest) =>
    oncePerShape(fieldsOf(manifest)).map((path) => ({
      what: `${manifest.kind} ${path.join('.')}`,
      manifest: renamed(manifest, path),
    })),
  );
  t.ok(misspelt.length > 100, `${misspelt.length} fields`);
  const problems = await strictly(
    t,
    misspelt.map(({ manifest }) => manifest),
  );
  const missed = misspelt.filter((_, i) => problems[i]?.length === 0).map(({ what }) => what);
  t.strictSame(missed, []);
});

test('values that Kubernetes would refuse are found', { skip }, async (t) => {
  const manifests = render('k8s/base');
  const wrong: [kind: string, path: Path, value: unknown][] = [
    ['Deployment', ['spec', 'minReadySeconds'], '40'],
    ['Deployment', ['spec', 'template', 'spec', 'containers', 0, 'ports', 0, 'containerPort'], 'api'],
    ['Deployment', ['spec', 'template', 'spec', 'containers', 0, 'command'], 'node'],
    ['Deployment', ['spec', 'template', 'spec', 'automountServiceAccountToken'], 'no'],
    ['HorizontalPodAutoscaler', ['spec', 'maxReplicas'], '6'],
    ['HorizontalPodAutoscaler', ['spec', 'maxReplicas'], undefined],
    ['Job', ['spec', 'template', 'spec', 'containers', 0, 'name'], undefined],
    ['CronJob', ['spec', 'schedule'], undefined],
    ['Service', ['apiVersion'], 'apps/v1'],
  ];
  const planted = wrong.map(([kind, path, value]) => {
    const manifest = structuredClone(manifests.find((it) => it.kind === kind));
    if (!manifest) throw new Error(`no ${kind}`);
    parentOf(manifest, path)[path.at(-1) ?? ''] = value;
    return manifest;
  });
  const problems = await strictly(t, planted);
  for (const [i, [kind, path, value]] of wrong.entries()) {
    t.not(problems[i]?.length, 0, `${kind} ${path.join('.')}: ${String(value)}`);
  }
});

test('a misspelt field of a kustomization is refused', { skip }, (t) => {
  const folder = scratch(t);
  writeFileSync(join(folder, 'kustomization.yaml'), 'kind: Kustomization\nresource: [../../k8s/base]\n');
  const { status, stderr } = spawnSync('kubectl', ['kustomize', folder], { encoding: 'utf8' });
  t.not(status, 0);
  t.match(stderr, /unknown field \\*"resource/);
  t.end();
});

function folders(path: string): string[] {
  return readdirSync(join(ROOT, path)).sort();
}

/** The path of every field whose name is Kubernetes'. */
function fieldsOf(value: unknown, path: Path = []): Path[] {
  if (Array.isArray(value)) return value.flatMap((item, i) => fieldsOf(item, [...path, i]));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => {
    if (['apiVersion', 'kind'].includes(key) && path.length === 0) return [];
    // A Service's selector is free; a policy's or Deployment's is a type.
    const isFree = FREE.includes(key) && !(key === 'selector' && isSelector(below));
    return [[...path, key], ...(isFree ? [] : fieldsOf(below, [...path, key]))];
  });
}

function isSelector(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'matchLabels' in value;
}

/** One of those that differ only in which item of a list they are in. */
function oncePerShape(paths: Path[]): Path[] {
  const shapes = new Map(
    paths.map((path) => [path.filter((part) => typeof part === 'string').join('.'), path]),
  );
  return [...shapes.values()];
}

function renamed(manifest: Manifest, path: Path): Manifest {
  const copy = structuredClone(manifest);
  const parent = parentOf(copy, path);
  const key = path.at(-1) ?? '';
  parent[`${key}z`] = parent[key];
  // eslint-disable-next-line @typescript-eslint/no-dynamic-delete
  delete parent[key];
  return copy;
}

function parentOf(manifest: Manifest, path: Path): Record<string | number, unknown> {
  let at: unknown = manifest;
  for (const part of path.slice(0, -1)) at = (at as Record<string | number, unknown>)[part];
  return at as Record<string | number, unknown>;
}
