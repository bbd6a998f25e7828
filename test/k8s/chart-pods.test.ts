import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { parse } from 'yaml';
import { toolsMissing } from '../support/tools.ts';
import { asJob, template, valuesFile } from './chart.ts';
import { allOf, type Labels, only, workloadsOf } from './kinds.ts';
import { isAllowed } from './network.ts';

const skip = toolsMissing('helm', 'kubectl', 'bash', 'openssl');

test('a Job of the release has a name for each image, a hook always the same', { skip }, (t) => {
  const nameFor = (mode: string, tag: string) =>
    only(template('minimal', '--set', `migration.mode=${mode},image.tag=${tag}`), 'Job').metadata.name;
  t.match(nameFor('job', '1.0.0'), /^latchkey-migrate-[0-9a-f]{10}$/);
  t.equal(nameFor('job', '1.0.0'), nameFor('job', '1.0.0'));
  t.not(nameFor('job', '1.0.0'), nameFor('job', '1.0.1'));
  t.equal(nameFor('hook', '1.0.0'), nameFor('hook', '1.0.1'));
  // helm renders another revision only with a cluster.
  const nameAt = (Revision: number) => {
    const at = `dict "Release" (dict "Revision" ${Revision})`;
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'name' } };
    const data = { name: `{{ include "latchkey.migrationName" (merge (${at}) .) }}` };
    const json = JSON.stringify([{ ...object, data }]);
    const manifests = template(
      'minimal',
      '--set',
      'migration.mode=job',
      '--set-json',
      `extraObjects=${json}`,
    );
    return only(manifests, 'ConfigMap', 'name').data.name;
  };
  t.equal(nameAt(1), only(template('minimal', '--set', 'migration.mode=job'), 'Job').metadata.name);
  t.not(nameAt(2), nameAt(1), 'an upgrade repeats a migration that has failed');
  t.strictSame(allOf(template('minimal', '--set', 'migration.mode=none'), 'Job'), []);
  const { metadata, spec } = only(template('argocd'), 'Job');
  t.match(metadata.name, /-migrate-[0-9a-f]{10}$/);
  t.strictSame(
    Object.keys(metadata.annotations ?? {})
      .map((name) => name.split('/')[0])
      .sort(),
    ['argocd.argoproj.io', 'argocd.argoproj.io'],
  );
  t.match(spec.template.spec.containers[0]?.image, /^registry\.example\.com\/latchkey@sha256:0{64}$/);
  t.end();
});

test('a hook needs nothing that Helm creates after it, but the Secret', { skip }, (t) => {
  const manifests = template('minimal');
  const { metadata, spec } = only(manifests, 'Job');
  t.match(metadata.annotations, {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-delete-policy': 'before-hook-creation',
  });
  const { serviceAccountName, containers } = spec.template.spec;
  const account = manifests.find(
    (it) => it.kind === 'ServiceAccount' && it.metadata.name === serviceAccountName,
  );
  t.match(account?.metadata.annotations, {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-weight': '-1',
  });
  t.equal(containers[0]?.envFrom, undefined, 'the ConfigMap comes later');
  t.end();
});

test('OpenShift chooses users and groups', { skip }, (t) => {
  for (const { name, template: pod } of workloadsOf(template('openshift'))) {
    const expected = { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } };
    t.strictSame(pod.spec.securityContext, expected, name);
  }
  t.end();
});

test('every pod gets what operators add to pods', { skip }, (t) => {
  const values = parse(readFileSync(valuesFile('no-network-policy'), 'utf8')) as Record<string, unknown>;
  const fields = ['imagePullSecrets', 'priorityClassName', 'nodeSelector', 'tolerations', 'affinity'];
  const manifests = template('no-network-policy').map(asJob);
  t.equal(workloadsOf(manifests).length, 5);
  for (const { name, template: pod } of workloadsOf(manifests)) {
    const own: Record<string, unknown> = { ...pod.spec };
    for (const field of fields) t.strictSame(own[field], values[field], `${name}: ${field}`);
    const [{ env } = {}] = pod.spec.containers;
    t.strictSame(own.initContainers, values.extraInitContainers, name);
    if (name !== 'latchkey-test') t.match(env?.at(-1), (values.extraEnv as object[])[0] ?? {}, name);
    t.equal(pod.metadata.labels['sidecar.istio.io/inject'], 'false', name);
    t.equal(pod.metadata.labels.team, 'identity', name);
    t.equal(pod.metadata.annotations?.['example.com/logs'], 'json', name);
  }
  for (const { kind, metadata } of manifests) t.equal(metadata.labels?.team, 'identity', kind);
  const { annotations } = values.deployment as { annotations: Labels };
  t.strictSame(only(manifests, 'Deployment').metadata.annotations, annotations);
  t.end();
});

test('every pod of a company has its files, labels and addresses', { skip }, (t) => {
  const manifests = template('company').map(asJob);
  const workloads = workloadsOf(manifests);
  t.equal(workloads.length, 6);
  const config = only(manifests, 'ConfigMap').metadata.name;
  const values = parse(readFileSync(valuesFile('company'), 'utf8')) as {
    extraVolumes: { name: string }[];
    extraVolumeMounts: object[];
    extraEnvFrom: object[];
    hostAliases: object[];
    dnsConfig: object;
  };
  for (const { kind, name, template: pod } of workloads) {
    const { volumes = [], containers, ...spec } = pod.spec;
    const [{ volumeMounts = [], envFrom = [] } = {}] = containers;
    t.strictSame(volumes.slice(-2), values.extraVolumes, name);
    t.strictSame(volumeMounts.slice(-2), values.extraVolumeMounts, name);
    t.strictSame([spec.hostAliases, spec.dnsConfig], [values.hostAliases, values.dnsConfig], name);
    const { labels, annotations } = pod.metadata;
    t.equal(labels['example.com/cost-centre'], '4711', name);
    t.equal(labels['sidecar.istio.io/inject'], kind === 'Deployment' ? 'true' : 'false', name);
    t.equal(annotations?.['example.com/logs'], 'json', name);
    if (name === 'latchkey-test') continue;
    // The last one wins.
    const own = name === 'latchkey-migrate' ? [] : [{ configMapRef: { name: config } }];
    t.strictSame(envFrom, [...values.extraEnvFrom, ...own], name);
  }
  for (const { kind, metadata } of manifests)
    t.equal(metadata.labels?.['example.com/cost-centre'], '4711', kind);
  t.end();
});

test('a parent chart’s registry and pull secrets reach every pod', { skip }, (t) => {
  const set = 'global.imageRegistry=mirror.example.com,global.imagePullSecrets={mirror}';
  const more = ['--set', `${set},imagePullSecrets[0].name=own,image.registry=overruled.example.com`];
  const workloads = workloadsOf(template('minimal', ...more).map(asJob));
  t.equal(workloads.length, 5);
  for (const { name, template: pod } of workloads) {
    t.match(pod.spec.containers[0]?.image, /^mirror\.example\.com\/registry\.example\.com\/latchkey:/, name);
    t.strictSame(pod.spec.imagePullSecrets, [{ name: 'own' }, { name: 'mirror' }], name);
  }
  t.end();
});

test('containers beside the replicas, numbers of probes and names', { skip }, (t) => {
  const sidecar = 'extraContainers[0].name=log,extraContainers[0].image=log:1.0';
  const manifests = template(
    'minimal',
    '--set',
    `${sidecar},nameOverride=login,readinessProbe.periodSeconds=1`,
  );
  for (const { kind, name, template: pod } of workloadsOf(manifests.map(asJob)))
    t.equal(pod.spec.containers.length, kind === 'Deployment' ? 2 : 1, name);
  const { metadata, spec } = only(manifests, 'Deployment');
  t.equal(metadata.name, 'latchkey-login');
  t.equal(metadata.labels?.['app.kubernetes.io/name'], 'latchkey', '`job`, which the alerts select');
  t.strictSame(spec.template.spec.containers[0]?.readinessProbe, {
    httpGet: { path: '/health/ready', port: 'ops' },
    periodSeconds: 1,
    timeoutSeconds: 3,
    failureThreshold: 2,
  });
  const metricsOf = (...set: string[]) =>
    only(template('company', ...set), 'HorizontalPodAutoscaler').spec.metrics.map(({ type }) => type);
  t.strictSame(metricsOf(), ['Resource', 'Pods']);
  t.strictSame(metricsOf('--set', 'autoscaling.targetCPUUtilizationPercentage=null'), ['Pods']);
  t.end();
});

test('a component’s own labels and annotations win, and Helm’s of a hook over all', { skip }, (t) => {
  const set = [
    'podLabels.a=general',
    'test.podLabels.a=own',
    'podAnnotations.b=general',
    'test.podAnnotations.b=own',
  ];
  const hook = 'podAnnotations.helm\\.sh/hook=pre-install,commonLabels.app\\.kubernetes\\.io/version=2';
  const pod = template('minimal', '--set-string', `${set.join(',')},${hook}`).find(
    ({ kind }) => kind === 'Pod',
  );
  t.match(pod?.metadata, {
    labels: { a: 'own', 'app.kubernetes.io/version': '2' },
    annotations: { b: 'own', 'helm.sh/hook': 'test' },
  });
  t.end();
});

test('every pod that reads a database URL reaches PgBouncer in networkPolicy.postgres', { skip }, (t) => {
  const json = JSON.stringify([{ podSelector: { matchLabels: { app: 'pgbouncer' } } }]);
  const more = [
    '--set',
    'networkPolicy.postgres.ports={6432}',
    '--set-json',
    `networkPolicy.postgres.to=${json}`,
  ];
  const manifests = template('everything', ...more);
  const pgbouncer = { namespace: 'latchkey', labels: { app: 'pgbouncer' } };
  const pods = workloadsOf(manifests).map(({ name, template: { metadata } }) => ({
    name,
    isAllowed: isAllowed(manifests, 'latchkey', { namespace: 'latchkey', ...metadata }, pgbouncer, 6432),
  }));
  t.equal(pods.length, 4);
  for (const { name, isAllowed } of pods) t.ok(isAllowed, name);
  t.end();
});
