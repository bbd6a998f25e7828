import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { isTest, template } from './chart.ts';
import { only, type Labels, type Manifest, type NetworkRule, type Selector } from './kinds.ts';
import { render, renderWith } from './render.ts';

const skip = toolsMissing('helm', 'kubectl');

interface Sides {
  chart: Manifest[];
  kustomize: Manifest[];
}

/** What the two say differently on purpose. Each makes both sides equal in one respect. */
const DIFFERENCES: Record<string, (sides: Sides) => void> = {
  'the namespace is Helm’s own argument'({ kustomize }) {
    remove(kustomize, ({ kind }) => kind === 'Namespace');
    for (const { metadata } of kustomize) delete metadata.namespace;
  },
  'Helm’s labels tell releases apart'({ chart }) {
    const labels = [
      'app.kubernetes.io/instance',
      'app.kubernetes.io/version',
      'app.kubernetes.io/managed-by',
    ];
    for (const at of objectsIn(chart))
      for (const name of [...labels, 'helm.sh/chart']) Reflect.deleteProperty(at, name);
  },
  'the chart labels every object'({ chart, kustomize }) {
    for (const { metadata } of [...chart, ...kustomize]) {
      delete metadata.labels?.['app.kubernetes.io/name'];
      if (Object.keys(metadata.labels ?? {}).length === 0) delete metadata.labels;
    }
  },
  'kustomize puts the hash of the configuration into its name, Helm into an annotation of the pods'(sides) {
    for (const at of objectsIn(sides.kustomize))
      if (typeof at.name === 'string') at.name = at.name.replace(/^latchkey-(?=.*\d)\w{10}$/, 'latchkey');
    for (const at of objectsIn(sides.chart)) {
      const annotations = at.annotations as Labels | undefined;
      if (annotations?.['checksum/config'] !== undefined) delete at.annotations;
    }
  },
  'the Job of the chart has a name for each image'({ chart }) {
    for (const { kind, metadata } of chart)
      if (kind === 'Job') metadata.name = metadata.name.replace(/-[0-9a-f]{10}$/, '');
  },
  'a chart has a test'({ chart }) {
    remove(chart, isTest);
  },
  'a release may share its namespace: its policies begin with its name, and select its own pods'(sides) {
    for (const { kind, metadata } of sides.chart)
      if (kind === 'NetworkPolicy') metadata.name = metadata.name.replace(/^latchkey-(?!server$)/, '');
    for (const { metadata, spec } of policies(sides.chart))
      if (metadata.name === 'default-deny') spec.podSelector = {};
    remove(sides.kustomize, ({ metadata }) => metadata.name === 'acme-solver');
  },
  'PgBouncer is not in the chart'({ kustomize }) {
    for (const { spec } of policies(kustomize)) {
      if (spec.egress)
        spec.egress = spec.egress.filter(({ to }) => !JSON.stringify(to).includes('pgbouncer'));
      const [expression] = spec.podSelector.matchExpressions ?? [];
      if (expression?.values.includes('pgbouncer'))
        spec.podSelector = { matchLabels: { [expression.key]: 'latchkey' } };
    }
  },
};

function remove(manifests: Manifest[], which: (manifest: Manifest) => boolean): void {
  manifests.splice(0, manifests.length, ...manifests.filter((manifest) => !which(manifest)));
}

function policies(manifests: Manifest[]) {
  return manifests.filter(({ kind }) => kind === 'NetworkPolicy') as (Manifest & {
    spec: { podSelector: Selector; egress?: NetworkRule[] };
  })[];
}

function objectsIn(value: unknown): Record<string, unknown>[] {
  if (typeof value !== 'object' || value === null) return [];
  const below = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? below : [value as Record<string, unknown>, ...below];
}

/** Both sides by kind and name, without the differences. */
function compared(sides: Sides, without?: string): [chart: object, kustomize: object] {
  const { chart, kustomize } = structuredClone(sides);
  for (const [name, adjust] of Object.entries(DIFFERENCES))
    if (name !== without) adjust({ chart, kustomize });
  const byName = (manifests: Manifest[]) =>
    Object.fromEntries(manifests.map((it) => [`${it.kind} ${it.metadata.name}`, it]));
  return [byName(chart), byName(kustomize)];
}

const BASE = ['--set', 'migration.mode=job,database.ca=true,image.repository=latchkey'];

test('the chart’s defaults are k8s/base', { skip }, (t) => {
  t.strictSame(...compared({ chart: template('minimal', ...BASE), kustomize: render('k8s/base') }));
  t.end();
});

test('the chart with an Ingress or a route is k8s/base with that component', { skip }, (t) => {
  for (const [name, component] of [
    ['ingress', 'ingress'],
    ['httproute', 'gateway'],
  ] as const) {
    const chart = template(name, ...BASE);
    // The cases' own values, which the components leave to an overlay.
    delete only(chart, 'ConfigMap').data.TRUST_PROXY;
    for (const { kind, metadata } of chart) if (kind === 'HTTPRoute') delete metadata.annotations;
    t.strictSame(...compared({ chart, kustomize: renderWith(t, 'k8s/base', [component]) }), name);
  }
  t.end();
});

test('the chart equals overlays/production, object by object', { skip }, (t) => {
  const chart = template('restricted-namespace');
  t.strictSame(...compared({ chart, kustomize: render('k8s/overlays/production') }));
  t.end();
});

test('the chart equals overlays/production with every component of the service', { skip }, (t) => {
  const components = ['ingress', 'gateway-internal', 'spread-nodes', 'tracing'];
  const sides = {
    chart: template('everything'),
    kustomize: renderWith(t, 'k8s/overlays/production', components),
  };
  const [chart, kustomize] = compared(sides);
  t.ok(Object.keys(chart).length > 20);
  t.strictSame(chart, kustomize);
  for (const name of Object.keys(DIFFERENCES)) t.notSame(...compared(sides, name), `needed: ${name}`);
  t.end();
});
