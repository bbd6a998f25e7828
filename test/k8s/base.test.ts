import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { FIELDS } from '../../src/config/fields.ts';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, variablesOf, workloadsOf } from './kinds.ts';
import { makeMounts, variablesIn } from './mounts.ts';
import { OVERLAYS, render, ROOT, scratch } from './render.ts';
import { madeSecrets } from './secrets.ts';

const MIB = 1024 ** 2;
const skip = toolsMissing('kubectl', 'bash', 'openssl');

test('the base', { skip }, async (t) => {
  const manifests = render('k8s/base');
  const { template } = only(manifests, 'Deployment').spec;
  const [container] = template.spec.containers;
  if (!container) throw new Error('the Deployment has no container');
  const ports = Object.fromEntries((container.ports ?? []).map((it) => [it.name, it.containerPort]));

  await t.test('holds all resources of a service', (t) => {
    const kinds = manifests.map(({ kind, metadata }) => `${kind} ${metadata.name.replace(/-\w{10}$/, '')}`);
    t.strictSame(kinds.sort(), [
      'ConfigMap latchkey',
      'CronJob latchkey-admin',
      'CronJob latchkey-purge',
      'Deployment latchkey',
      'HorizontalPodAutoscaler latchkey',
      'Job latchkey-migrate',
      'PodDisruptionBudget latchkey',
      'Service latchkey',
      'Service latchkey-ops',
      'ServiceAccount latchkey',
    ]);
    t.end();
  });

  await t.test('runs this package’s version in every workload', (t) => {
    const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { version: string };
    const images = workloadsOf(manifests).flatMap((it) =>
      it.template.spec.containers.map(({ image }) => image),
    );
    t.equal(images.length, 4);
    t.strictSame(new Set(images), new Set([`latchkey:${version}`]));
    t.end();
  });

  await t.test('probes the ops port', (t) => {
    const { startupProbe, livenessProbe, readinessProbe } = container;
    t.strictSame(livenessProbe?.httpGet, { path: '/health/live', port: 'ops' });
    t.strictSame(startupProbe?.httpGet, { path: '/health/live', port: 'ops' });
    t.strictSame(readinessProbe?.httpGet, { path: '/health/ready', port: 'ops' });
    t.end();
  });

  await t.test('routes the API and the ops port separately', (t) => {
    t.strictSame(
      allOf(manifests, 'Service').map(({ metadata, spec }) => [metadata.name, spec.ports]),
      [
        ['latchkey', [{ name: 'api', port: ports.api, targetPort: 'api' }]],
        ['latchkey-ops', [{ name: 'ops', port: ports.ops, targetPort: 'ops' }]],
      ],
    );
    t.end();
  });
});

for (const overlay of OVERLAYS) {
  test(`overlays/${overlay} starts in production, within its memory limit`, { skip }, (t) => {
    const manifests = render(`k8s/overlays/${overlay}`);
    const { spec } = only(manifests, 'Deployment', 'latchkey').spec.template;
    const [container] = spec.containers;
    const data = variablesOf(manifests);
    const { env = [], resources, ports = [] } = container ?? {};
    const names = [...env.map(({ name }) => name), ...Object.keys(data)];
    for (const name of names) t.ok(name.replace(/_FILE$/, '') in FIELDS, `${name} is a variable`);

    const variables = variablesIn(makeMounts(scratch(t), madeSecrets(t)), spec, manifests);
    const limit = /^(\d+)Mi$/.exec(resources?.limits?.memory ?? '')?.[1];
    const config = loadConfig({ ...imageEnvironment(), ...variables }, Number(limit) * MIB);
    t.equal(config.production, true);
    t.strictSame(config.embedded, []);
    t.equal(config.DOCS_ENABLED, overlay === 'dev', 'only the trial serves the reference');
    t.strictSame(Object.fromEntries(ports.map((it) => [it.name, it.containerPort])), {
      api: config.PORT,
      ops: config.OPS_PORT,
    });
    t.end();
  });
}

test('the issuer of overlays/production is its route’s host', { skip }, (t) => {
  const manifests = render('k8s/overlays/production');
  const { hostnames = [] } = only(manifests, 'HTTPRoute').spec;
  const data = variablesOf(manifests);
  t.strictSame(
    hostnames.map((host) => `https://${host}`),
    [data.ISSUER],
  );
  t.ok(FIELDS.TRUST_PROXY.schema.parse(data.TRUST_PROXY), 'it trusts forwarded addresses');
  t.end();
});

/** The variables of the Dockerfile's last stage. */
function imageEnvironment(): Record<string, string> {
  const dockerfile = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const assignments = [...dockerfile.matchAll(/^ENV (.+)$/gm)].at(-1)?.[1]?.split(' ') ?? [];
  return Object.fromEntries(assignments.map((text) => text.split('=') as [string, string]));
}
