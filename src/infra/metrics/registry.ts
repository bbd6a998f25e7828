import { makeCounter, makeHistogram, type Counter, type Histogram } from './instruments.ts';

export type Labels = Readonly<Record<string, string>>;

export interface Sample {
  labels: Labels;
  value: number;
}

/** The series of one metric. Callers keep the series that they use, so counting needs no lookup. */
export interface Family<Instrument> {
  with(labels: Labels): Instrument;
}

export interface Registry {
  counters(name: string, help: string): Family<Counter>;
  /** @param bounds of the buckets, in seconds, ascending. */
  histograms(name: string, help: string, bounds: readonly number[]): Family<Histogram>;
  /** Adds a metric that is read at each scrape. */
  read(
    type: 'gauge' | 'counter',
    name: string,
    help: string,
    read: () => number | Sample[] | Promise<number | Sample[]>,
  ): void;
  /** All metrics in Prometheus's text format, version 0.0.4. */
  text(): Promise<string>;
}

/**
 * The metrics of a process. Written by hand because prom-client looks up a series by its labels for each increment, and
 * refresh and verify would pay for several lookups each (docs/adr/0018-metrics-traces-and-logs.md).
 */
export function makeRegistry(): Registry {
  const families = new Map<string, () => Promise<string>>();

  function add(type: string, name: string, help: string, lines: () => string[] | Promise<string[]>): void {
    if (families.has(name)) throw new Error(`${name} is registered twice`);
    const head = `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    families.set(name, async () => `${head}${(await lines()).map((line) => `${line}\n`).join('')}`);
  }

  function family<Instrument>(make: () => Instrument) {
    const series: { labels: Labels; instrument: Instrument }[] = [];
    return {
      series,
      with(labels: Labels): Instrument {
        const instrument = make();
        series.push({ labels, instrument });
        return instrument;
      },
    };
  }

  return {
    counters(name, help) {
      const made = family(makeCounter);
      add('counter', name, help, () =>
        made.series.map(({ labels, instrument }) => `${name}${render(labels)} ${instrument.value()}`),
      );
      return made;
    },
    histograms(name, help, bounds) {
      const made = family(() => makeHistogram(bounds));
      add('histogram', name, help, () =>
        made.series.flatMap(({ labels, instrument }) => renderHistogram(name, labels, instrument)),
      );
      return made;
    },
    read(type, name, help, read) {
      add(type, name, help, async () => {
        const value = await read();
        const samples = typeof value === 'number' ? [{ labels: {}, value }] : value;
        return samples.map((sample) => `${name}${render(sample.labels)} ${sample.value}`);
      });
    },
    async text() {
      return (await Promise.all([...families.values()].map((read) => read()))).join('');
    },
  };
}

function renderHistogram(name: string, labels: Labels, histogram: Histogram): string[] {
  const { buckets, sum, count } = histogram.value();
  return [
    ...buckets.map(({ le, cumulative }) => `${name}_bucket${render({ ...labels, le })} ${cumulative}`),
    `${name}_sum${render(labels)} ${sum}`,
    `${name}_count${render(labels)} ${count}`,
  ];
}

function render(labels: Labels): string {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escape(value)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escape(value: string): string {
  return value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n');
}

/**
 * Creates one series for each value of a label at the start. So an event that never happened is 0 instead of missing,
 * and an alert sees its first occurrence as an increase.
 */
export function seriesOf<Instrument, Value extends string>(
  family: Family<Instrument>,
  label: string,
  values: readonly Value[],
  labels: Readonly<Record<string, string>> = {},
): Record<Value, Instrument> {
  const entries = values.map((value) => [value, family.with({ ...labels, [label]: value })] as const);
  return Object.fromEntries(entries) as Record<Value, Instrument>;
}
