import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeOf, readTable } from './markdown.ts';

const FILE = join(new URL('../../../', import.meta.url).pathname, 'docs/observability.md');

export interface DocumentedMetric {
  type: string;
  /** Each label with its values, or null if the document describes the values without a list. */
  labels: Map<string, string[] | null>;
}

/** Every metric of docs/observability.md by its name. */
export function documentedMetrics(): Map<string, DocumentedMetric> {
  const sections = readFileSync(FILE, 'utf8')
    .split(/^### /m)
    .filter((section) => section.includes('| metric'));
  const labels = new Map(sections.flatMap(readLabels));
  const metrics = sections
    .flatMap((section) => readTable(section, /^\| metric/))
    .map(([name = '', type = '']) => [codeOf(name)[0] ?? '', type] as const);
  const unknown = [...labels.keys()].filter((name) => !metrics.some(([known]) => known === name));
  if (unknown.length > 0) throw new Error(`labels without a metric: ${unknown.join(', ')}`);
  return new Map(metrics.map(([name, type]) => [name, { type, labels: labels.get(name) ?? new Map() }]));
}

/** Items such as "- `metric`: `label`: `value`, `value`; `other`: a description". Lines may be wrapped. */
function readLabels(section: string): [string, DocumentedMetric['labels']][] {
  return [...section.matchAll(/^- `(\w+)`: ((?:.|\n {2})+)/gm)].map(([, metric = '', text = '']) => {
    const labels = text.split(/;\s+/).map((part): [string, string[] | null] => {
      const [label = '', ...values] = codeOf(part);
      const isList = /^[\s:,]*$/.test(part.replaceAll(/`[^`]*`/g, ''));
      return [label, isList ? values : null];
    });
    return [metric, new Map(labels)];
  });
}
