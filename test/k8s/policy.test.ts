import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { only, workloadsOf, type Container, type Manifest, type PodSpec } from './kinds.ts';
import { violations } from './policy.ts';
import { renderAll, renderWith } from './render.ts';

const skip = toolsMissing('kubectl');

test('every overlay and component keeps the rules', { skip }, (t) => {
  for (const [name, manifests] of renderAll(t)) {
    t.ok(workloadsOf(manifests).length >= 3, `${name} starts pods`);
    t.strictSame(violations(manifests), [], name);
  }
  t.end();
});

interface Planted {
  all: Manifest[];
  /** Of the Deployment. */
  pod: PodSpec;
  container: Container;
}

/** Each rule, and a change that breaks it. */
const PLANTED: [rule: string, change: (planted: Planted) => unknown][] = [
  ['runs as no root', ({ pod }) => delete pod.securityContext?.runAsNonRoot],
  ['has seccomp', ({ pod }) => delete pod.securityContext?.seccompProfile],
  ['has nothing of its host', ({ pod }) => (pod.hostNetwork = true)],
  ['mounts no token', ({ pod }) => delete pod.automountServiceAccountToken],
  ['gets no variables of other Services', ({ pod }) => delete pod.enableServiceLinks],
  ['mounts no folder of its host', ({ pod }) => pod.volumes?.push({ name: 'all', hostPath: { path: '/' } })],
  ['keeps nothing', ({ pod }) => pod.volumes?.push({ name: 'data', emptyDir: {} })],
  ['is not tried for ever', ({ all }) => (only(all, 'Job').spec.backoffLimit = 10)],
  ['has a tag that says which', ({ container }) => (container.image = 'registry.example.com:5000/latchkey')],
  ['has a digest', ({ container }) => (container.image = 'registry.example.com/other:1.0.0')],
  ['asks for CPU and memory', ({ container }) => delete container.resources?.requests?.cpu],
  [
    'asks for room for its log',
    ({ container }) => delete container.resources?.requests?.['ephemeral-storage'],
  ],
  ['is bounded in memory', ({ container }) => delete container.resources?.limits],
  ['is not throttled', ({ container }) => Object.assign(container.resources?.limits ?? {}, { cpu: '1' })],
  ['is probed', ({ container }) => delete container.livenessProbe],
  ['gains no rights', ({ container }) => delete container.securityContext?.allowPrivilegeEscalation],
  ['writes nothing to its root', ({ container }) => delete container.securityContext?.readOnlyRootFilesystem],
  [
    'has no capabilities',
    ({ container }) => Object.assign(container.securityContext?.capabilities ?? {}, { add: ['SYS_ADMIN'] }),
  ],
  [
    'has no secret in a variable',
    ({ container }) => container.env?.push({ name: 'A', valueFrom: { secretKeyRef: { name: 'latchkey' } } }),
  ],
  [
    'has whole volumes',
    ({ container }) => Object.assign(container.volumeMounts?.[0] ?? {}, { subPath: 'a' }),
  ],
  ['reads ConfigMaps that exist', ({ all }) => (only(all, 'ConfigMap').metadata.name = 'latchkey')],
  [
    'scales what exists',
    ({ all }) => (only(all, 'HorizontalPodAutoscaler').spec.scaleTargetRef.name = 'latchkeys'),
  ],
  [
    'Service latchkey: selects the pods of one workload',
    ({ all }) => delete only(all, 'Service', 'latchkey').spec.selector['app.kubernetes.io/component'],
  ],
  [
    'PodDisruptionBudget latchkey: selects the pods of one workload',
    ({ all }) => (only(all, 'PodDisruptionBudget').spec.selector = { matchLabels: { app: 'latchkey' } }),
  ],
  [
    'Deployment latchkey: selects its own pods',
    ({ all }) => {
      const labels = { 'app.kubernetes.io/component': 'migrate' };
      Object.assign(only(all, 'Deployment').spec.selector.matchLabels ?? {}, labels);
    },
  ],
  [
    'Ingress latchkey: leads to the API only',
    ({ all }) => Object.assign(backendOf(all), { name: 'latchkey-ops', port: { name: 'ops' } }),
  ],
  ['Ingress latchkey: leads to what exists', ({ all }) => (backendOf(all).name = 'latchkeys')],
  ['is for any controller', ({ all }) => (only(all, 'Ingress').spec.ingressClassName = 'nginx')],
  ['Ingress latchkey: has TLS', ({ all }) => delete only(all, 'Ingress').spec.tls],
  [
    'HTTPRoute latchkey: leads to the API only',
    ({ all }) => Object.assign(routeBackendOf(all), { name: 'latchkey-ops', port: 9464 }),
  ],
  ['HTTPRoute latchkey: leads to what exists', ({ all }) => (routeBackendOf(all).port = 9464)],
  ['HTTPRoute latchkey: has TLS', ({ all }) => delete only(all, 'HTTPRoute').spec.parentRefs[0]?.sectionName],
  ['HTTPRoute latchkey: takes one host only', ({ all }) => delete only(all, 'HTTPRoute').spec.hostnames],
  [
    'NetworkPolicy latchkey-to-redis: names destinations',
    ({ all }) => delete only(all, 'NetworkPolicy', 'latchkey-to-redis').spec.egress?.[0]?.to,
  ],
  [
    'Secret latchkey: is in no manifest',
    ({ all }) => all.push({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'latchkey' } }),
  ],
];

test('finds each broken rule', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/base', ['gateway', 'ingress', 'network-policy']);
  t.strictSame(violations(manifests), []);
  for (const [rule, change] of PLANTED) {
    const all = structuredClone(manifests);
    const pod = only(all, 'Deployment').spec.template.spec;
    const [container] = pod.containers;
    if (!container) throw new Error('the Deployment has no container');
    change({ all, pod, container });
    const found = violations(all);
    t.ok(
      found.some((text) => text.includes(rule)),
      `${rule}: ${found.join('; ')}`,
    );
  }
  t.end();
});

function backendOf(manifests: Manifest[]): { name: string; port: { name: string } } {
  const [path] = only(manifests, 'Ingress').spec.rules[0]?.http.paths ?? [];
  if (!path) throw new Error('the Ingress has no path');
  return path.backend.service;
}

function routeBackendOf(manifests: Manifest[]): { name: string; port: number } {
  const [backend] = only(manifests, 'HTTPRoute').spec.rules[0]?.backendRefs ?? [];
  if (!backend) throw new Error('the HTTPRoute has no backend');
  return backend;
}
