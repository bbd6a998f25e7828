import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { template } from './chart.ts';
import { allOf, only, workloadsOf } from './kinds.ts';
import { render } from './render.ts';

const skip = toolsMissing('kubectl');

/** Old pods need the configuration that they were made with, also when they restart or a rollout is undone. */
const KEPT = {
  'argocd.argoproj.io/compare-options': 'IgnoreExtraneous',
  'argocd.argoproj.io/sync-options': 'Prune=false',
  'kustomize.toolkit.fluxcd.io/prune': 'disabled',
};

test('Argo CD and Flux replace the Job and keep old ConfigMaps', { skip }, (t) => {
  const manifests = render('k8s/overlays/production');
  t.strictSame(only(manifests, 'Job').metadata.annotations, {
    'argocd.argoproj.io/hook': 'Sync',
    'argocd.argoproj.io/hook-delete-policy': 'BeforeHookCreation',
    'kustomize.toolkit.fluxcd.io/force': 'enabled',
  });
  const hashed = allOf(manifests, 'ConfigMap').filter(({ metadata }) => /-\w{10}$/.test(metadata.name));
  t.match(hashed, [{ immutable: true }]);
  t.strictSame(
    hashed.map(({ metadata }) => metadata.annotations),
    [KEPT],
  );
  t.end();
});

test(
  'helm keeps old ConfigMaps too, and each pod names its own',
  { skip: skip || toolsMissing('helm') },
  (t) => {
    const configOf = (...set: string[]) => {
      const manifests = template('everything', ...set);
      const pods = workloadsOf(manifests).filter(({ name }) => !name.includes('-migrate'));
      t.equal(pods.length, 3, 'the replicas, purge and commands');
      const names = new Set(
        pods.flatMap(({ template: pod }) =>
          (pod.spec.containers[0]?.envFrom ?? []).map(({ configMapRef }) => configMapRef?.name),
        ),
      );
      t.equal(names.size, 1);
      return only(manifests, 'ConfigMap', [...names][0]);
    };
    const [one, same, other] = [
      configOf(),
      configOf('--set', 'replicaCount=3'),
      configOf('--set', 'config.LOG_LEVEL=warn'),
    ];
    t.match(one, { immutable: true, metadata: { name: /^latchkey-[0-9a-f]{10}$/ } });
    t.strictSame(one.metadata.annotations, { ...KEPT, 'helm.sh/resource-policy': 'keep' });
    t.strictSame(one.data, same.data);
    t.equal(one.metadata.name, same.metadata.name);
    t.not(one.metadata.name, other.metadata.name);
    t.end();
  },
);
