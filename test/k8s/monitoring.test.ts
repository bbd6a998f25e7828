import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { parse } from 'yaml';
import { toolsMissing } from '../support/tools.ts';
import { allOf, only, selects } from './kinds.ts';
import { render, renderWith, ROOT } from './render.ts';

const skip = toolsMissing('kubectl');
const RULES = readFileSync(join(ROOT, 'deploy/prometheus/rules.yaml'), 'utf8');

test('the PrometheusRule is what scripts/prometheus-rule.mjs makes of the rules', (t) => {
  const script = join(ROOT, 'scripts/prometheus-rule.mjs');
  const { stdout } = spawnSync(process.execPath, [script, '--print'], { encoding: 'utf8' });
  const file = readFileSync(join(ROOT, 'k8s/components/monitoring/prometheus-rule.yaml'), 'utf8');
  t.equal(file, stdout, 'run node scripts/prometheus-rule.mjs');
  t.end();
});

test('Grafana gets the dashboard that scripts/dashboard-copy.mjs makes of deploy/grafana', { skip }, (t) => {
  const script = join(ROOT, 'scripts/dashboard-copy.mjs');
  const { stdout } = spawnSync(process.execPath, [script, '--print'], { encoding: 'utf8' });
  const manifests = allOf(renderWith(t, 'k8s/base', ['monitoring']), 'ConfigMap');
  const [map] = manifests.filter(({ metadata }) => metadata.name === 'latchkey-dashboard');
  t.equal(map?.data['latchkey.json'], stdout, 'run node scripts/dashboard-copy.mjs');
  t.strictSame(map?.metadata.labels?.grafana_dashboard, '1');
  const dashboard = readFileSync(join(ROOT, 'deploy/grafana/latchkey.json'), 'utf8');
  t.strictSame(JSON.parse(stdout), JSON.parse(dashboard));
  t.end();
});

test('the cluster’s Prometheus gets the rules that any other gets', { skip }, (t) => {
  const { spec } = only(renderWith(t, 'k8s/base', ['monitoring']), 'PrometheusRule');
  const { groups } = parse(RULES) as typeof spec;
  t.not(groups.length, 0);
  t.strictSame(spec.groups, groups);
  t.end();
});

test('kube-prometheus-stack takes what production has for it', { skip }, (t) => {
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

test('the ops port is scraped, by the name that the rules go by', { skip }, (t) => {
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
