import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, type Manifest } from './kinds.ts';
import { render, renderWith } from './render.ts';

const skip = toolsMissing('kubectl');
const PRODUCTION = 'k8s/overlays/production';

test('with components/gitops, both tools replace the Job and keep old ConfigMaps', { skip }, (t) => {
  const manifests = renderWith(t, PRODUCTION, ['gitops']);
  t.strictSame(only(manifests, 'Job').metadata.annotations, {
    'argocd.argoproj.io/hook': 'Sync',
    'argocd.argoproj.io/hook-delete-policy': 'BeforeHookCreation',
    'kustomize.toolkit.fluxcd.io/force': 'enabled',
  });
  const hashed = allOf(manifests, 'ConfigMap').filter(({ metadata }) => /-\w{10}$/.test(metadata.name));
  t.strictSame(
    hashed.map(({ metadata }) => metadata.annotations),
    [
      {
        'argocd.argoproj.io/compare-options': 'IgnoreExtraneous',
        'argocd.argoproj.io/sync-options': 'Prune=false',
        'kustomize.toolkit.fluxcd.io/prune': 'disabled',
      },
    ],
  );
  t.end();
});

test('components/gitops changes nothing else', { skip }, (t) => {
  const without = (manifests: Manifest[]) =>
    manifests.map(({ metadata: { annotations, ...metadata }, ...rest }) => {
      const kept = Object.entries(annotations ?? {}).filter(([name]) => !/argoproj|fluxcd/.test(name));
      return { ...rest, metadata: { ...metadata, annotations: Object.fromEntries(kept) } };
    });
  t.strictSame(without(renderWith(t, PRODUCTION, ['gitops'])), without(render(PRODUCTION)));
  t.end();
});
