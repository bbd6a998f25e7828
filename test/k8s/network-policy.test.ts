import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { FIELDS } from '../../src/config/fields.ts';
import { toolsMissing } from '../support/tools.ts';
import { variablesOf, workloadsOf, type Manifest } from './kinds.ts';
import { isAllowed, type Peer } from './network.ts';
import { readManifests, renderWith, ROOT } from './render.ts';

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
  solver: { namespace: NAMESPACE, labels: { 'acme.cert-manager.io/http01-solver': 'true' } },
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

  ['edge', 'solver', 8089, true],
  ['stranger', 'solver', 8089, false],
  ['edge', 'neighbour', 8089, false],
  ['solver', 'postgres', 5432, false],
  ['solver', 'internet', 443, false],

  ['neighbour', 'postgres', 5432, false],
  ['stranger', 'postgres', 5432, false],
  ['neighbour', 'redis', 6379, false],
  ['stranger', 'pgbouncer', 6432, false],
  ['postgres', 'internet', 443, false],
  ['redis', 'internet', 443, false],
  ['neighbour', 'internet', 443, false],
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
  assertWays(t, renderWith(t, 'k8s/base', ['network-policy', 'postgres', 'redis', 'pgbouncer']), WAYS);
  assertWays(t, renderWith(t, 'k8s/overlays/production', ['pgbouncer']), OWN_STORES);
  t.end();
});

test('the trial stores refuse other pods even without the policies of the service', { skip }, (t) => {
  assertWays(t, renderWith(t, 'k8s/base', ['postgres', 'redis']), [
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

test('the rule in a comment opens issuers outside, and nothing else', { skip }, (t) => {
  const file = readFileSync(join(ROOT, 'k8s/components/network-policy/server.yaml'), 'utf8');
  const changed = readManifests(file.replaceAll(/^( +)#(?=- | {2})/gm, '$1'));
  assertWays(
    t,
    [...renderWith(t, 'k8s/base', ['network-policy']), ...changed],
    [
      ['latchkey', 'internet', 443, true],
      ['latchkey', 'internet', 80, false],
      ['latchkey', 'metadata', 443, false],
      ['latchkey-purge', 'internet', 443, false],
    ],
  );
  t.end();
});

test('spans reach their collector, and no other connection opens with it', { skip }, (t) => {
  for (const folder of ['k8s/base', 'k8s/overlays/production', 'k8s/overlays/dev']) {
    const more = folder === 'k8s/base' ? ['network-policy', 'tracing', 'postgres'] : ['tracing'];
    const manifests = renderWith(t, folder, more);
    const { hostname, port, href } = new URL(variablesOf(manifests).OTEL_EXPORTER_OTLP_ENDPOINT ?? '');
    t.ok(FIELDS.OTEL_EXPORTER_OTLP_ENDPOINT.schema.parse(href), href);
    t.equal(hostname.split('.')[1], OTHERS.collector?.namespace);
    const isClosed = folder !== 'k8s/overlays/dev';
    assertWays(t, manifests, [
      ['latchkey', 'collector', Number(port), true],
      ['latchkey', folder === 'k8s/overlays/production' ? 'own-postgres' : 'postgres', 5432, true],
      ['latchkey', 'stranger', Number(port), !isClosed],
      ['latchkey', 'internet', Number(port), !isClosed],
      ['latchkey-purge', 'collector', Number(port), !isClosed],
    ]);
  }
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
