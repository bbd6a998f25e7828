import { test } from 'tap';
import { FIELDS } from '../../src/config/fields.ts';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, variablesOf } from './kinds.ts';
import { OVERLAYS, render } from './render.ts';

const skip = toolsMissing('kubectl');

/** Seconds that the service gives its stores after SHUTDOWN_TIMEOUT (CLOSE_GRACE in src/server.ts). */
const CLOSE_GRACE = 1;

for (const overlay of OVERLAYS) {
  test(`a rollout of overlays/${overlay}`, { skip }, (t) => {
    const manifests = render(`k8s/overlays/${overlay}`);
    const { spec } = only(manifests, 'Deployment', 'latchkey');
    const { terminationGracePeriodSeconds: grace = 30, containers } = spec.template.spec;
    const preStop = containers[0]?.lifecycle?.preStop.sleep.seconds ?? 0;
    const readiness = containers[0]?.readinessProbe;
    const data = variablesOf(manifests);
    const setting = (name: 'DRAIN_DELAY' | 'SHUTDOWN_TIMEOUT' | 'REQUEST_TIMEOUT') =>
      FIELDS[name].schema.parse(data[name]);
    const drain = setting('DRAIN_DELAY');
    const shutdown = setting('SHUTDOWN_TIMEOUT');

    t.ok(preStop > 0, 'Services remove the pod before its SIGTERM');
    t.ok(preStop + shutdown + CLOSE_GRACE < grace, `${preStop} + ${shutdown} + ${CLOSE_GRACE} < ${grace}`);
    t.ok(
      drain + setting('REQUEST_TIMEOUT') <= shutdown,
      'a request that begins at the end of the drain can finish',
    );
    t.ok(
      (readiness?.periodSeconds ?? 10) * (readiness?.failureThreshold ?? 3) <= drain,
      'the readiness probe sees the drain before it ends',
    );
    t.equal(spec.strategy.type, 'RollingUpdate');
    t.strictSame(spec.strategy.rollingUpdate, { maxSurge: 1, maxUnavailable: 0 }, 'new pods come first');
    t.equal(spec.replicas, undefined, 'an apply does not reset the autoscaler’s replicas');
    t.end();
  });
}

test(
  'a changed configuration does not change the migration Job, because a Job is immutable',
  { skip },
  (t) => {
    const { template } = only(render('k8s/base'), 'Job').spec;
    t.notMatch(JSON.stringify(template), /configMap/);
    t.end();
  },
);

test('the Job and the replicas use the same image', { skip }, (t) => {
  for (const overlay of OVERLAYS) {
    const manifests = render(`k8s/overlays/${overlay}`);
    const { template } = only(manifests, 'Deployment', 'latchkey').spec;
    const [replica] = template.spec.containers;
    t.equal(only(manifests, 'Job').spec.template.spec.containers[0]?.image, replica?.image);
    for (const { metadata, spec } of allOf(manifests, 'CronJob'))
      t.equal(spec.jobTemplate.spec.template.spec.containers[0]?.image, replica?.image, metadata.name);
  }
  t.end();
});

test('the autoscaler doubles at once, and removes one pod at a time', { skip }, (t) => {
  const manifests = render('k8s/overlays/production');
  const { minReplicas, behavior } = only(manifests, 'HorizontalPodAutoscaler').spec;
  const { terminationGracePeriodSeconds: grace = 30 } = only(manifests, 'Deployment').spec.template.spec;
  const { scaleUp, scaleDown } = behavior;
  t.equal(scaleUp.stabilizationWindowSeconds, 0);
  t.ok(
    scaleUp.policies.some(
      ({ type, value, periodSeconds }) => type === 'Percent' && value >= 100 && periodSeconds <= 15,
    ),
  );
  t.ok(scaleDown.stabilizationWindowSeconds >= 300);
  t.strictSame(
    scaleDown.policies.map(({ type, value }) => ({ type, value })),
    [{ type: 'Pods', value: 1 }],
  );
  t.ok((scaleDown.policies[0]?.periodSeconds ?? 0) >= grace, 'each ends before the next one is removed');
  t.ok(
    minReplicas > only(manifests, 'PodDisruptionBudget').spec.maxUnavailable,
    'one replica stays during a node drain',
  );
  t.end();
});
