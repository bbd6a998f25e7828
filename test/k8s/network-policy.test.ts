import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { parse } from 'yaml';
import { FIELDS } from '../../src/config/fields.ts';
import { readBlocks } from '../support/markdown.ts';
import { toolsMissing } from '../support/tools.ts';
import { only, variablesOf, workloadsOf, type Manifest } from './kinds.ts';
import { isAllowed, type Peer } from './network.ts';
import { productionWith, render, renderWith, ROOT, type Kustomization } from './render.ts';

const skip = toolsMissing('kubectl');
const NAMESPACE = 'latchkey';

/** The other peers. */
const OTHERS: Record<string, Peer> = {
  edge: { namespace: 'edge', namespaceLabels: { 'latchkey/edge': 'true' }, labels: {} },
  prometheus: { namespace: 'monitoring', labels: {} },
  stranger: { namespace: 'default', labels: {} },
  neighbour: { namespace: NAMESPACE, labels: { app: 'shop' } },
  client: { namespace: 'shop', namespaceLabels: { 'latchkey/client': 'true' }, labels: {} },
  collector: { namespace: 'observability', namespaceLabels: { 'latchkey/collector': 'true' }, labels: {} },
  dns: { namespace: 'kube-system', labels: { 'k8s-app': 'kube-dns' } },
  'node-dns': { namespace: '', address: '169.254.20.10' },
  // The addresses of overlays/production.
  'own-postgres': { namespace: '', address: '192.0.2.4' },
  'own-redis': { namespace: '', address: '192.0.2.20' },
  internet: { namespace: '', address: '203.0.113.9' },
  // Of the cloud.
  metadata: { namespace: '', address: '169.254.169.254' },
};

type Way = [from: string, to: string, port: number, allowed: boolean];

/** Every connection that the service needs, and some that must be blocked. */
const WAYS: Way[] = [
  ['edge', 'latchkey', 3000, true],
  ['client', 'latchkey', 3000, true],
  ['prometheus', 'latchkey', 9464, true],
  ['edge', 'latchkey', 9464, false],
  ['client', 'latchkey', 9464, false],
  ['prometheus', 'latchkey', 3000, false],
  ['stranger', 'latchkey', 3000, false],
  ['neighbour', 'latchkey', 3000, false],
  ['internet', 'latchkey', 3000, false],
  ['edge', 'latchkey-migrate', 3000, false],

  ['latchkey', 'dns', 53, true],
  ['latchkey', 'node-dns', 53, true],
  ['latchkey', 'node-dns', 80, false],
  ['latchkey', 'postgres', 5432, true],
  ['latchkey', 'redis', 6379, true],
  ['latchkey', 'pgbouncer', 6432, true],
  ['latchkey', 'internet', 5432, false],
  ['latchkey', 'internet', 6379, false],
  ['latchkey', 'neighbour', 5432, false],
  ['latchkey', 'redis', 5432, false],
  ['latchkey', 'collector', 4318, false],
  ['latchkey', 'internet', 443, false],
  ['latchkey', 'neighbour', 80, false],

  ['pgbouncer', 'dns', 53, true],
  ['pgbouncer', 'node-dns', 53, true],
  ['pgbouncer', 'postgres', 5432, true],
  ['pgbouncer', 'internet', 443, false],
  ...['latchkey-migrate', 'latchkey-purge'].flatMap((job): Way[] => [
    [job, 'dns', 53, true],
    [job, 'node-dns', 53, true],
    [job, 'postgres', 5432, true],
    [job, 'internet', 5432, false],
    [job, 'redis', 6379, false],
    [job, 'pgbouncer', 6432, false],
    [job, 'internet', 443, false],
  ]),

  ['latchkey-admin', 'dns', 53, true],
  ['latchkey-admin', 'node-dns', 53, true],
  ['latchkey-admin', 'postgres', 5432, true],
  ['latchkey-admin', 'redis', 6379, true],
  ['latchkey-admin', 'internet', 6379, false],
  ['latchkey-admin', 'pgbouncer', 6432, false],
  ['latchkey-admin', 'internet', 443, false],
  ['prometheus', 'latchkey-admin', 9464, false],

  ['neighbour', 'postgres', 5432, false],
  ['stranger', 'postgres', 5432, false],
  ['neighbour', 'redis', 6379, false],
  ['stranger', 'pgbouncer', 6432, false],
  ['postgres', 'internet', 443, false],
  ['redis', 'internet', 443, false],
  // The policies select Latchkey's pods, PgBouncer's, and those of the trial stores. Others keep what they have.
  ['neighbour', 'internet', 443, true],
];

/** With the addresses of overlays/production. */
const OWN_STORES: Way[] = [
  ...['latchkey', 'latchkey-admin', 'latchkey-migrate', 'latchkey-purge', 'pgbouncer'].flatMap(
    (from): Way[] => [
      [from, 'own-postgres', 5432, true],
      [from, 'own-postgres', 443, false],
      [from, 'own-redis', 5432, false],
      [from, 'internet', 5432, false],
      [from, 'internet', 6379, false],
      [from, 'dns', 53, true],
    ],
  ),
  ...['latchkey', 'latchkey-admin'].flatMap((from) =>
    [6379, 6380, 26379].map((port): Way => [from, 'own-redis', port, true]),
  ),
  ...['latchkey-migrate', 'latchkey-purge', 'pgbouncer'].map((from): Way => [from, 'own-redis', 6379, false]),
  ['latchkey', 'own-postgres', 6379, false],
  ['latchkey', 'pgbouncer', 6432, true],
];

test('the network policies allow the needed connections only', { skip }, (t) => {
  assertWays(t, renderWith(t, 'k8s/overlays/dev', ['network-policy', 'pgbouncer']), WAYS);
  assertWays(t, productionWith(t, { components: ['../../components/pgbouncer'] }), OWN_STORES);
  t.end();
});

test('the trial stores refuse other pods even without the policies of the service', { skip }, (t) => {
  assertWays(t, render('k8s/overlays/dev'), [
    ['latchkey', 'postgres', 5432, true],
    ['latchkey-migrate', 'postgres', 5432, true],
    ['latchkey', 'redis', 6379, true],
    ['latchkey-admin', 'redis', 6379, true],
    ['latchkey-purge', 'redis', 6379, false],
    ['neighbour', 'postgres', 5432, false],
    ['neighbour', 'redis', 6379, false],
    ['latchkey', 'internet', 443, true],
  ]);
  t.end();
});

/** Overlays/production with a block of the README added to it. */
function withExample(t: Test, section: string, contains: string): Manifest[] {
  const [example] = readBlocks(readFileSync(join(ROOT, 'k8s/README.md'), 'utf8'))
    .filter((block) => block.section === section && block.language === 'yaml')
    .filter(({ text }) => text.includes(contains));
  if (!example) throw new Error(`k8s/README.md has no example of ${contains} below ${section}`);
  return productionWith(t, parse(example.text) as Partial<Kustomization>);
}

test('the README’s rule opens issuers outside, and nothing else', { skip }, (t) => {
  assertWays(t, withExample(t, 'The edge', 'cidr: 0.0.0.0/0'), [
    ['latchkey', 'internet', 443, true],
    ['latchkey', 'internet', 80, false],
    ['latchkey', 'metadata', 443, false],
    ['latchkey-purge', 'internet', 443, false],
  ]);
  t.end();
});

test('spans reach the README’s collector, and no other connection opens with it', { skip }, (t) => {
  const manifests = withExample(t, 'Changes of an overlay', 'OTEL_EXPORTER_OTLP_ENDPOINT');
  const { hostname, port, href } = new URL(variablesOf(manifests).OTEL_EXPORTER_OTLP_ENDPOINT ?? '');
  t.ok(FIELDS.OTEL_EXPORTER_OTLP_ENDPOINT.schema.parse(href), href);
  t.equal(hostname.split('.')[1], OTHERS.collector?.namespace);
  assertWays(t, manifests, [
    ['latchkey', 'collector', Number(port), true],
    ['latchkey', 'own-postgres', 5432, true],
    ['latchkey', 'stranger', Number(port), false],
    ['latchkey', 'internet', Number(port), false],
    ['latchkey-purge', 'collector', Number(port), false],
  ]);
  t.end();
});

test('with the README’s patch no node has two replicas more than another', { skip }, (t) => {
  const spreadOf = (manifests: Manifest[]) =>
    only(manifests, 'Deployment').spec.template.spec.topologySpreadConstraints;
  const [zone, node, ...others] = spreadOf(render('k8s/overlays/production')) ?? [];
  t.strictSame(others, []);
  t.match(node, { topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' });
  // A drained node, which the pods do not tolerate, does not count.
  const strict = { ...node, whenUnsatisfiable: 'DoNotSchedule', nodeTaintsPolicy: 'Honor' };
  t.strictSame(spreadOf(withExample(t, 'Changes of an overlay', 'DoNotSchedule')), [zone, strict]);
  t.end();
});

function assertWays(t: Test, manifests: Manifest[], ways: Way[]): void {
  const peers = { ...OTHERS, ...podsOf(manifests) };
  for (const [from, to, port, allowed] of ways) {
    const passes = isAllowed(manifests, NAMESPACE, peer(peers, from), peer(peers, to), port);
    t.equal(passes, allowed, `${from} → ${to}:${port} ${allowed ? 'passes' : 'does not'}`);
  }
}

/** The pods that the manifests start, by the names of their workloads. */
function podsOf(manifests: Manifest[]): Record<string, Peer> {
  return Object.fromEntries(
    workloadsOf(manifests).map(({ name, template }) => {
      const ports = template.spec.containers.flatMap((container) => container.ports ?? []);
      const pod = {
        namespace: NAMESPACE,
        labels: template.metadata.labels,
        ports: Object.fromEntries(ports.map((port) => [port.name, port.containerPort])),
      };
      return [name, pod];
    }),
  );
}

function peer(peers: Record<string, Peer>, name: string): Peer {
  const found = peers[name];
  if (!found) throw new Error(`there is no ${name}`);
  return found;
}
