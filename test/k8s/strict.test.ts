import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readBlocks } from '../support/markdown.ts';
import { toolsMissing } from '../support/tools.ts';
import { only, type Manifest } from './kinds.ts';
import {
  COMPONENTS,
  OVERLAYS,
  readManifests,
  render,
  renderAll,
  renderWith,
  ROOT,
  scratch,
} from './render.ts';
import { strictly } from './strict.ts';

const skip = toolsMissing('kubectl');

/** Names of fields and places in lists, from the outside in. */
type Path = (string | number)[];

/** Below these, names are free. */
const FREE = ['annotations', 'data', 'labels', 'limits', 'matchLabels', 'requests', 'selector'];

test(
  'every overlay and component, and the Gateway API’s objects in documents, match their types',
  { skip },
  async (t) => {
    // agent.test.ts checks the one for other services.
    t.strictSame(folders('k8s/components'), ['agent', ...COMPONENTS], 'every component is checked');
    t.strictSame(folders('k8s/overlays'), OVERLAYS, 'every overlay is checked');
    const groups = [...renderAll(t), ['documents', documentedExamples()] as const];
    const all = groups.flatMap(([name, manifests]) => manifests.map((manifest) => ({ name, manifest })));
    const problems = await strictly(
      t,
      all.map(({ manifest }) => manifest),
    );
    for (const [i, { name, manifest }] of all.entries()) {
      t.strictSame(problems[i], [], `${name}: ${manifest.kind} ${manifest.metadata.name}`);
    }
  },
);

test('every misspelt field is found', { skip }, async (t) => {
  const manifests = [
    ...renderWith(t, 'k8s/overlays/production', ['pgbouncer', 'ingress']),
    only(render('k8s/overlays/dev'), 'StatefulSet'),
  ];
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

test('finds values that Kubernetes would refuse', { skip }, async (t) => {
  const manifests = renderWith(t, 'k8s/base', ['gateway']);
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
    ['HTTPRoute', ['apiVersion'], 'gateway.networking.k8s.io/v2'],
    ['HTTPRoute', ['spec', 'hostnames', 0], 'https://auth.example.com'],
    ['HTTPRoute', ['spec', 'rules', 0, 'matches', 0, 'path', 'type'], 'Prefix'],
    ['HTTPRoute', ['spec', 'rules', 0, 'backendRefs', 0, 'port'], 'api'],
    ['HTTPRoute', ['spec', 'rules', 1, 'timeouts', 'request'], 'never'],
    ['HTTPRoute', ['spec', 'parentRefs', 0, 'name'], undefined],
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

/** The objects of the Gateway API that documents show. No package here knows those of its implementations. */
function documentedExamples(): Manifest[] {
  const blocks = ['k8s/README.md', 'docs/integrating/proxies.md'].flatMap((file) =>
    readBlocks(readFileSync(join(ROOT, file), 'utf8')).filter(({ language }) => language === 'yaml'),
  );
  const examples = blocks
    .flatMap(({ text }) => readManifests(text))
    .filter(({ apiVersion }: Partial<Manifest>) => apiVersion?.startsWith('gateway.networking.k8s.io/'));
  if (examples.length === 0) throw new Error('the documents show no object of the Gateway API');
  return examples;
}

/** The path of every field whose name Kubernetes defines. */
function fieldsOf(value: unknown, path: Path = []): Path[] {
  if (Array.isArray(value)) return value.flatMap((item, i) => fieldsOf(item, [...path, i]));
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, below]) => {
    if (['apiVersion', 'kind'].includes(key) && path.length === 0) return [];
    // A Service's selector has free names. A policy's or Deployment's has a type.
    const isFree = FREE.includes(key) && !(key === 'selector' && isSelector(below));
    return [[...path, key], ...(isFree ? [] : fieldsOf(below, [...path, key]))];
  });
}

function isSelector(value: unknown): boolean {
  return typeof value === 'object' && value !== null && 'matchLabels' in value;
}

/** One path of those that differ only in list indexes. */
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
  // oxlint-disable-next-line typescript/no-dynamic-delete
  delete parent[key];
  return copy;
}

function parentOf(manifest: Manifest, path: Path): Record<string | number, unknown> {
  let at: unknown = manifest;
  for (const part of path.slice(0, -1)) at = (at as Record<string | number, unknown>)[part];
  return at as Record<string | number, unknown>;
}
