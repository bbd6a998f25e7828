import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { growthText } from './growth.ts';
import { findingText } from './judge.ts';
import type { LiveView } from './live-view.ts';
import { LoadError } from './load-error.ts';
import { pageOf } from './page.ts';
import { roundLine } from './pictures.ts';
import { failuresOf, type Report } from './report.ts';

/** @throws LoadError before the run, whose report would be lost */
export function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { recursive: true });
    accessSync(folder, constants.W_OK);
  } catch (error) {
    throw new LoadError(
      `--report: cannot write to ${folder}: ${(error as NodeJS.ErrnoException).code ?? 'error'}`,
    );
  }
}

/** Writes the report's files, and shows its figures. @returns why the run failed; empty if all is well. */
export function writeReport(report: Report, folder: string, view: Pick<LiveView, 'say'>): string[] {
  const { totals, correctness, herd: outage } = report;
  writeFileSync(join(folder, 'report.json'), `${JSON.stringify(report, null, 2)}\n`);
  writeFileSync(join(folder, 'report.html'), pageOf(report));
  writeFileSync(join(folder, 'operations.csv'), operationsTable(report));
  writeFileSync(join(folder, 'over-time.csv'), overTimeTable(report));
  view.say(
    `${report.scenario}: ${totals.requests} requests in ${totals.seconds} s, ${totals.ok_per_second} answers with 200 a second; ` +
      `median ${totals.p50 ?? 'none'} ms, p95 ${totals.p95 ?? 'none'} ms, p99 ${totals.p99 ?? 'none'} ms, p99.9 ${totals.p999 ?? 'none'} ms`,
  );
  for (const [code, count] of Object.entries(report.errors)) view.say(`  ${count} × ${code}`);
  for (const round of outage?.rounds ?? []) view.say(`  ${roundLine(round)}`);
  if (outage) view.say(growthText(outage));
  if (report.interrupted) view.say('ended early');
  view.say(`correctness: ${JSON.stringify(correctness)}`);
  for (const finding of report.findings) view.say(`  ${findingText(finding)}`);
  view.say(join(folder, 'report.html'));
  return failuresOf(report);
}

function operationsTable({ totals, operations }: Report): string {
  const head = [
    'operation',
    'requests',
    'ok',
    'lost_on_purpose',
    'timeouts',
    'failed',
    'p50_ms',
    'p90_ms',
    'p95_ms',
    'p99_ms',
    'p99.9_ms',
    'max_ms',
  ];
  const rows = Object.entries({ all: totals, ...operations }).map(([name, each]) => [
    name,
    each.requests,
    each.ok,
    each.lost_on_purpose,
    each.timeouts,
    sumOfCounts(each.errors),
    each.p50,
    each.p90,
    each.p95,
    each.p99,
    each.p999,
    each.max,
  ]);
  return csv([head, ...rows]);
}

function overTimeTable({ over_time: intervals }: Report): string {
  const head = [
    'second',
    'offered_per_second',
    'answered_per_second',
    'failed',
    'p50_ms',
    'p90_ms',
    'p99_ms',
  ];
  const rows = intervals.map(({ second, offered, answered, errors, p50, p90, p99 }) => [
    second,
    offered,
    answered,
    sumOfCounts(errors),
    p50,
    p90,
    p99,
  ]);
  return csv([head, ...rows]);
}

/** Words of our own and numbers: nothing has to be quoted. */
function csv(rows: readonly (readonly (string | number | null)[])[]): string {
  return rows.map((row) => `${row.map((cell) => cell ?? '').join(',')}\n`).join('');
}

function sumOfCounts(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0);
}
