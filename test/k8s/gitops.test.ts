import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only } from './kinds.ts';
import { render } from './render.ts';

const skip = toolsMissing('kubectl');

test('Argo CD and Flux replace the Job and keep old ConfigMaps', { skip }, (t) => {
  const manifests = render('k8s/overlays/production');
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
