import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Thresholds } from './arguments.ts';
import { makeHistogram } from './histogram.ts';
import { LoadError } from './load-error.ts';
import type { Report } from './report.ts';
import { intervalOf, sumOf, type Interval } from './samples.ts';
import { OPERATIONS } from './scenarios.ts';

/**
 * Reads reports of one load that several generators sent.
 * @param paths files, or folders that hold a `report.json`
 * @throws LoadError that names the path
 */
export function readReports(paths: readonly string[]): Report[] {
  const texts = paths.map(read);
  return texts.map((text, i) => {
    const path = paths[i] ?? '';
    if (texts.indexOf(text) < i) throw new LoadError(`${path}: this report is given twice`);
    const report = parse(text);
    if (report === null)
      throw new LoadError(`${path}: no report.json of this version of the kit, which a merge needs`);
    if (report.herd) throw new LoadError(`${path}: herd runs alone, so there is nothing to merge`);
    return report;
  });
}

function read(path: string): string {
  try {
    return readFileSync(statSync(path).isDirectory() ? join(path, 'report.json') : path, 'utf8');
  } catch (error) {
    throw new LoadError(`${path}: cannot read it: ${(error as NodeJS.ErrnoException).code ?? 'error'}`);
  }
}

/** @returns null unless it has what a merge reads; reports of 1.0.0 have no histograms */
function parse(text: string): Report | null {
  try {
    const report = JSON.parse(text) as Partial<Report> | null;
    const { scenario, started = '', totals, over_time: intervals, findings } = report ?? {};
    const isWhole =
      typeof scenario === 'string' &&
      Number.isFinite(Date.parse(started)) &&
      Array.isArray(intervals) &&
      Array.isArray(findings) &&
      typeof totals?.histogram === 'object';
    return isWhole ? (report as Report) : null;
  } catch {
    return null;
  }
}

/**
 * One report of all. Counts and rates add up, percentiles come from the buckets of all, and the generators' own figures
 * are those of the worst one.
 * @param given thresholds that replace those of the reports, of which the strictest count
 * @throws LoadError unless they are of one scenario and one time
 */
export function mergeReports(reports: readonly Report[], given: Thresholds): Report {
  const sorted = [...reports].sort((a, b) => startOf(a) - startOf(b));
  const [first] = sorted;
  if (!first) throw new Error('there are no reports');
  for (const each of sorted) checkSame(first, each);
  const all = <Value>(valueOf: (report: Report) => Value) => sorted.map(valueOf);
  const sum = (valueOf: (report: Report) => number) => all(valueOf).reduce((total, each) => total + each, 0);
  const begin = startOf(first);
  const seconds = Math.max(...all((each) => (startOf(each) - begin) / 1000 + each.totals.seconds));
  const totals = sumOf(all((each) => each.totals));
  const { scenario, models, started, settings } = first;
  return {
    scenario,
    models,
    started,
    settings: {
      ...settings,
      users: sum((each) => each.settings.users),
      rate: sum((each) => each.settings.rate),
      connections: sum((each) => each.settings.connections),
      url: distinct(all((each) => each.settings.url)),
    },
    thresholds: {
      max_p99_ms: given.max_p99_ms ?? least(all((each) => each.thresholds.max_p99_ms)),
      max_errors: given.max_errors ?? least(all((each) => each.thresholds.max_errors)),
      max_late_ms: given.max_late_ms ?? least(all((each) => each.thresholds.max_late_ms)),
    },
    generators: sum((each) => each.generators),
    machine: {
      cpu: distinct(all((each) => each.machine.cpu)),
      cores: sum((each) => each.machine.cores),
      memory_gib: sum((each) => each.machine.memory_gib),
      node: distinct(all((each) => each.machine.node)),
      platform: distinct(all((each) => each.machine.platform)),
    },
    totals: {
      seconds: rounded(seconds),
      arrivals: sum((each) => each.totals.arrivals),
      not_begun: sum((each) => each.totals.not_begun),
      ok_per_second: rounded(sum((each) => each.totals.ok_per_second * each.totals.seconds) / seconds),
      ...totals,
    },
    generator: {
      late_p99_ms: greatest(all((each) => each.generator.late_p99_ms)),
      cpu: Math.max(...all((each) => each.generator.cpu)),
    },
    operations: Object.fromEntries(
      OPERATIONS.flatMap((name) => {
        const figures = all(({ operations }) => operations[name] ?? []).flat();
        return figures.length > 0 ? [[name, sumOf(figures)]] : [];
      }),
    ),
    over_time: mergeIntervals(sorted, begin),
    errors: totals.errors,
    interrupted: sorted.some(({ interrupted }) => interrupted),
    correctness: addedUp(all((each) => each.correctness)),
    judged: addedUp(all((each) => each.judged)),
    findings: sorted.flatMap(({ findings }) => findings).sort((a, b) => (a.at < b.at ? -1 : 1)),
    not_seen: [
      ...first.not_seen,
      'Whether two generators got the same id or the same session: each judges its own answers.',
    ],
  };
}

function checkSame(first: Report, each: Report): void {
  const [a, b] = [first, each].map(({ scenario, settings }) => `${scenario} of ${settings.seconds} s`);
  if (a !== b) throw new LoadError(`merge: the reports are of ${a} and of ${b}: take those of one load`);
  if (startOf(each) > startOf(first) + first.totals.seconds * 1000)
    throw new LoadError(
      `merge: one run began at ${each.started}, after the one of ${first.started} had ended: take those of one load`,
    );
}

/** By the clocks of the generators, since the first one began. */
function mergeIntervals(reports: readonly Report[], begin: number): Interval[] {
  const length = intervalOf(reports[0]?.settings.seconds ?? 1);
  const places: (Interval[] | undefined)[] = [];
  for (const report of reports)
    for (const interval of report.over_time) {
      const at = Math.floor(((startOf(report) - begin) / 1000 + interval.second) / length);
      (places[at] ??= []).push(interval);
    }
  return Array.from(places, (parts = [], at) => {
    const took = makeHistogram();
    for (const { histogram } of parts)
      took.addCounts(histogram, Math.max(0, ...Object.keys(histogram).map(Number)));
    const [p50, p90, p99] = [0.5, 0.9, 0.99].map((share) => rounded(took.percentile(share))) as Percentiles;
    return {
      second: at * length,
      offered: parts.reduce((total, { offered }) => total + offered, 0),
      answered: parts.reduce((total, { answered }) => total + answered, 0),
      p50,
      p90,
      p99,
      histogram: took.toCounts(),
      errors: addedUp(parts.map(({ errors }) => errors)),
    };
  });
}

type Percentiles = [number | null, number | null, number | null];

function startOf({ started }: Report): number {
  return Date.parse(started);
}

/** Adds up what has the same name. */
function addedUp<Counts extends object>(all: readonly Counts[]): Counts {
  const sums: Record<string, number> = {};
  for (const counts of all)
    for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + Number(count);
  return sums as Counts;
}

function distinct(values: readonly string[]): string {
  return [...new Set(values)].join(', ');
}

function least(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.min(...known) : null;
}

function greatest(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length > 0 ? Math.max(...known) : null;
}

function rounded<Value extends number | null>(value: Value): Value {
  return (value === null ? null : Math.round(value * 100) / 100) as Value;
}
