import { test } from 'tap';
import { toolsMissing } from '../support/tools.ts';
import { only, workloadsOf, type Manifest } from './kinds.ts';
import { violations } from './policy.ts';
import { render, renderAll } from './render.ts';

const skip = toolsMissing('kubectl');

test('every overlay and component keeps the rules', { skip }, (t) => {
  for (const [name, manifests] of renderAll(t)) {
    t.ok(workloadsOf(manifests).length >= 3, `${name} starts pods`);
    t.strictSame(violations(manifests), [], name);
  }
  t.end();
});

/** Rules of a pod, of how two manifests fit, and of the whole, each with a change that breaks it. */
const PLANTED: [rule: string, change: (all: Manifest[]) => unknown][] = [
  [
    'runs as no root',
    (all) => delete only(all, 'Deployment').spec.template.spec.securityContext?.runAsNonRoot,
  ],
  [
    'Service latchkey: selects the pods of one workload',
    (all) => delete only(all, 'Service', 'latchkey').spec.selector['app.kubernetes.io/component'],
  ],
  [
    'Secret latchkey: is in no manifest',
    (all) => all.push({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'latchkey' } }),
  ],
];

test('finds broken rules', { skip }, (t) => {
  const manifests = render('k8s/base');
  t.strictSame(violations(manifests), []);
  for (const [rule, change] of PLANTED) {
    const all = structuredClone(manifests);
    change(all);
    t.match(violations(all).join('; '), rule);
  }
  t.end();
});
