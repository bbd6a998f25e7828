export interface Metric {
  type: string;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

/** Parses Prometheus's text format. @throws Error for an invalid line. */
export function parseExposition(text: string): Map<string, Metric> {
  const metrics = new Map<string, Metric>();
  let current: Metric | undefined;
  let currentName = '';
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('# HELP ')) continue;
    const type = /^# TYPE (\w+) (counter|gauge|histogram)$/.exec(line);
    if (type) {
      currentName = type[1] ?? '';
      if (metrics.has(currentName)) throw new Error(`${currentName} twice`);
      current = { type: type[2] ?? '', samples: [] };
      metrics.set(currentName, current);
      continue;
    }
    const sample = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!sample || !current || !sample[1]?.startsWith(currentName)) throw new Error(`not a sample: ${line}`);
    const value = Number(sample[3]);
    if (Number.isNaN(value)) throw new Error(`no number: ${line}`);
    current.samples.push({ name: sample[1], labels: parseLabels(sample[2] ?? ''), value });
  }
  return metrics;
}

function parseLabels(text: string): Record<string, string> {
  const found = [...text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"(?:,|$)/g)];
  if (found.map(([all]) => all).join('') !== text) throw new Error(`no labels: ${text}`);
  return Object.fromEntries(
    found.map(([, name = '', value = '']) => [
      name,
      value.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c)),
    ]),
  );
}

/** The value of the series with these labels, 0 if there is none. For a histogram: the number of observations. */
export function valueOf(text: string, name: string, labels: Record<string, string> = {}): number {
  const metric = parseExposition(text).get(name);
  if (!metric) throw new Error(`no metric ${name}`);
  const wanted = metric.type === 'histogram' ? `${name}_count` : name;
  const found = metric.samples.filter(
    (sample) =>
      sample.name === wanted &&
      Object.entries(labels).every(([label, value]) => sample.labels[label] === value),
  );
  return found.reduce((sum, { value }) => sum + value, 0);
}
