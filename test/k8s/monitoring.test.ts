import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { parse } from 'yaml';
import type { Alert, Recording } from '../support/alert-rules.ts';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, selects } from './kinds.ts';
import { render, renderWith, ROOT } from './render.ts';

const skip = toolsMissing('kubectl');
const RULES = readFileSync(join(ROOT, 'deploy/prometheus/rules.yaml'), 'utf8');

test('Grafana’s sidecar gets the dashboard of deploy, small enough for `kubectl apply`', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/base', ['monitoring']);
  const map = only(manifests, 'ConfigMap', 'latchkey-dashboard');
  t.equal(map.metadata.labels?.grafana_dashboard, '1');
  const dashboard = readFileSync(join(ROOT, 'deploy/grafana/latchkey.json'), 'utf8');
  t.strictSame(JSON.parse(map.data['latchkey.json'] ?? ''), JSON.parse(dashboard));
  // `apply` repeats the object in an annotation, and annotations may have 256 KiB.
  t.ok(JSON.stringify(map).length < 200 * 1024);
  t.end();
});

test('the cluster’s Prometheus gets the same rules as any other', { skip }, (t) => {
  const { spec } = only(renderWith(t, 'k8s/base', ['monitoring']), 'PrometheusRule');
  const { groups } = parse(RULES) as typeof spec;
  t.not(groups.length, 0);
  t.strictSame(spec.groups, groups);
  t.end();
});

test('kube-prometheus-stack selects production’s monitors and rules by label', { skip }, (t) => {
  const ours = render('k8s/overlays/production').filter(({ apiVersion }) =>
    apiVersion.startsWith('monitoring.coreos.com/'),
  );
  t.strictSame(
    ours.map(({ kind, metadata }) => [kind, metadata.labels?.release]),
    [
      ['PrometheusRule', 'kube-prometheus-stack'],
      ['ServiceMonitor', 'kube-prometheus-stack'],
    ],
  );
  t.end();
});

test('production’s alerts link to the runbook at the address that the overlay sets', { skip }, (t) => {
  const overlay = parse(readFileSync(join(ROOT, 'k8s/overlays/production/kustomization.yaml'), 'utf8')) as {
    configMapGenerator: { name: string; literals: string[] }[];
  };
  const setting = overlay.configMapGenerator.find(({ name }) => name === 'latchkey-runbook');
  const address = setting?.literals[0]?.replace(/^url=/, '');
  const manifests = render('k8s/overlays/production');
  const alerts = only(manifests, 'PrometheusRule').spec.groups.flatMap(({ rules }) =>
    (rules as (Alert | Recording)[]).filter((rule) => 'alert' in rule),
  );
  t.not(alerts.length, 0);
  for (const { alert, annotations } of alerts)
    t.equal(annotations.runbook_url, `${address}#${alert.toLowerCase()}`, alert);
  const maps = allOf(manifests, 'ConfigMap').filter(({ metadata }) => metadata.name.includes('runbook'));
  t.strictSame(maps, [], 'the setting itself is not applied');
  t.end();
});

test('the ops port is scraped, under the job name in the rules', { skip }, (t) => {
  const manifests = renderWith(t, 'k8s/base', ['monitoring']);
  const { jobLabel, selector, endpoints } = only(manifests, 'ServiceMonitor').spec;
  const services = allOf(manifests, 'Service').filter(({ metadata }) => selects(selector, metadata.labels));
  t.strictSame(
    services.map(({ metadata }) => metadata.name),
    ['latchkey-ops'],
  );
  const ports = services.flatMap(({ spec }) => spec.ports.map(({ name }) => name));
  for (const { port } of endpoints) t.ok(ports.includes(port), `there is a port ${port}`);
  const jobs = [...RULES.matchAll(/\bjob="([^"]*)"/g)].map(([, job]) => job);
  for (const job of jobs) t.equal(job, services[0]?.metadata.labels?.[jobLabel]);
  t.end();
});
