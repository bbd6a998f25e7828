import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import {
  dashboardQueries,
  metricsIn,
  readDashboard,
  readRules,
  ROOT,
  type Panel,
} from '../support/alert-rules.ts';
import { documentedMetrics } from '../support/metrics-document.ts';

// test/fault/alerts.test.ts checks what needs a Prometheus: every query is valid and has data.

const dashboard = readDashboard();
const panels = dashboard.panels.filter(({ type }) => type !== 'row');
const { alerts, recordings } = readRules();

test('answers three questions, in this order', (t) => {
  const rows = dashboard.panels.filter(({ type }) => type === 'row').map(({ title }) => title);
  t.strictSame(rows.slice(0, 3), ['Is it healthy?', 'Is it under attack?', 'Is it at capacity?']);
  t.end();
});

test('every panel has a position, a title and a description of its own', (t) => {
  const ids = dashboard.panels.map(({ id }) => id);
  t.equal(new Set(ids).size, ids.length);
  t.equal(new Set(panels.map(({ title }) => title)).size, panels.length);
  const taken = new Map<string, string>();
  for (const { title, gridPos } of dashboard.panels) {
    const overlapping = cellsOf(gridPos).filter((cell) => taken.has(cell));
    t.strictSame(overlapping, [], title);
    for (const cell of cellsOf(gridPos)) taken.set(cell, title);
    t.ok(gridPos.x + gridPos.w <= 24, title);
  }
  for (const { title, description = '', targets = [] } of panels) {
    t.match(description, /\.$/, title);
    t.not(targets.length, 0, title);
    t.equal(new Set(targets.map(({ refId }) => refId)).size, targets.length, title);
  }
  t.end();
});

const INSTALLATION = 'cluster=~"$cluster", namespace=~"$namespace", service=~"$service"';

test('queries the selected Prometheus, about the selected replicas', (t) => {
  const variables = dashboard.templating.list;
  t.strictSame(
    variables.map(({ name, type }) => [name, type]),
    [
      ['datasource', 'datasource'],
      ['cluster', 'query'],
      ['namespace', 'query'],
      ['service', 'query'],
      ['instance', 'query'],
    ],
  );
  for (const { title, targets = [] } of panels) {
    for (const { expr, datasource } of targets) {
      t.equal(datasource.uid, '${datasource}', title);
      // Recorded series describe the whole installation.
      const selectors = expr.match(/[\w:]+\{[^}]*\}/g) ?? [];
      t.not(selectors.length, 0, expr);
      for (const selector of selectors) {
        t.match(selector, INSTALLATION, title);
        if (!/^(\w+:|ALERTS)/.test(selector))
          t.match(selector, `job="latchkey", ${INSTALLATION}, instance=~"$instance"`, title);
      }
    }
  }
  t.end();
});

test('replicas of two clusters with one address are not joined', (t) => {
  const joins = dashboardQueries().flatMap(({ panel, expr }) =>
    [...expr.matchAll(/(?:\bon|sum by) \(([^)]*\b(?:instance|kid)\b[^)]*)\)/g)].map(([, labels = '']) => ({
      panel,
      labels,
    })),
  );
  t.ok(joins.length >= 3, `${joins.length} joins`);
  for (const { panel, labels } of joins)
    t.strictSame(labels.split(', ').slice(0, 3), ['cluster', 'namespace', 'service'], panel);
  t.end();
});

test('every metric is on the dashboard or in a rule, and each name there is a metric', (t) => {
  const documented = [...documentedMetrics().keys()];
  const asked = [...dashboardQueries(), ...alerts, ...recordings].flatMap(({ expr }) => metricsIn(expr));
  const known = new Set([...documented, ...recordings.map(({ record }) => record), 'up', 'ALERTS']);
  const isKnown = (name: string) => known.has(name) || known.has(name.replace(/_(bucket|count|sum)$/, ''));
  t.strictSame(
    [...new Set(asked)].filter((name) => !isKnown(name)),
    [],
  );
  const unused = documented.filter((name) => !asked.some((each) => each.startsWith(name)));
  t.strictSame(unused, []);
  t.end();
});

test('names in italics in the entries of the runbook are panels', (t) => {
  const entries = readFileSync(join(ROOT, 'docs/runbook.md'), 'utf8').split(/^### /m).slice(1).join('');
  const titles = new Set(panels.map(({ title }) => title));
  const named = [
    ...entries
      .replaceAll(/`[^`]*`/g, '')
      .replaceAll(/\n +/g, ' ')
      .matchAll(/\b_([^_\n]+)_\b/g),
  ];
  t.ok(named.length > 40, `${named.length} panels are named`);
  for (const [, title = ''] of named) t.ok(titles.has(title), title);
  t.end();
});

function cellsOf({ x, y, w, h }: Panel['gridPos']): string[] {
  return Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`);
}
