import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

export const ROOT = new URL('../../../', import.meta.url).pathname;
export const RULES_FILE = join(ROOT, 'deploy/prometheus/rules.yaml');

export interface Alert {
  alert: string;
  expr: string;
  for?: string;
  labels: { severity: string };
  annotations: { summary: string; description: string; runbook_url: string };
}

export interface Recording {
  record: string;
  expr: string;
}

export interface RuleFile {
  groups: { name: string; rules: (Alert | Recording)[] }[];
}

export function readRules(text = readFileSync(RULES_FILE, 'utf8')) {
  const file = parse(text) as RuleFile;
  const rules = file.groups.flatMap((group) => group.rules);
  return {
    file,
    alerts: rules.filter((rule) => 'alert' in rule),
    recordings: rules.filter((rule) => 'record' in rule),
  };
}

export interface Panel {
  id: number;
  type: string;
  title: string;
  description?: string;
  gridPos: { x: number; y: number; w: number; h: number };
  targets?: { refId: string; expr: string; datasource: { uid: string } }[];
}

export interface Dashboard {
  panels: Panel[];
  templating: { list: { name: string; type: string; definition?: string }[] };
}

export function readDashboard(): Dashboard {
  return JSON.parse(readFileSync(join(ROOT, 'deploy/grafana/latchkey.json'), 'utf8')) as Dashboard;
}

/** The queries that Grafana sends with all options selected, by panel. */
export function dashboardQueries({ panels } = readDashboard()): { panel: string; expr: string }[] {
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({
      panel: title,
      expr: expr
        .replaceAll(/\$(cluster|namespace|service|instance)\b/g, '.*')
        .replaceAll('$__rate_interval', '1m'),
    })),
  );
}

const KEYWORDS = new Set([
  'and',
  'or',
  'unless',
  'offset',
  'bool',
  'by',
  'without',
  'on',
  'ignoring',
  'atan2',
]);

/** The names of the series in a PromQL expression. */
export function metricsIn(expr: string): string[] {
  const bare = expr
    .replaceAll(/"(?:[^"\\]|\\.)*"/g, '')
    .replaceAll(/\{[^}]*\}|\[[^\]]*\]/g, ' ')
    .replaceAll(/\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, ' ');
  const words = [...bare.matchAll(/(?<![\w:.])([a-zA-Z_:][\w:]*)(?!\s*\(|[\w:])/g)].map(
    ([, word = '']) => word,
  );
  return [...new Set(words.filter((word) => !KEYWORDS.has(word)))];
}
