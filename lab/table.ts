/** The laboratory's one writer: tables for a terminal and for the documents, and JSON for machines. */
import { readFileSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { join } from 'node:path';
import { formatted } from '../test/support/formatted.ts';
import type { Sample } from './bench/statistics.ts';

export interface Table {
  title: string;
  head: readonly string[];
  /** Numbers are rounded to whole ones. Of a sample, the median and the range of the middle half are shown. */
  rows: readonly (readonly (string | number | Sample)[])[];
}

/** What each command measured, as Markdown; null if no figures are committed. */
export type Figures = Record<string, string | null>;

export interface Machine {
  cores: number;
  cpu: string;
  node: string;
}

export const DOCS = new URL('../../docs/', import.meta.url).pathname;
/** The page that holds every committed figure. */
export const PAGE = join(DOCS, 'performance.md');
const END = '<!-- end of the figures -->';

/** The one kind of report: tables, then notes, then the machine. */
export function reportText(tables: readonly Table[], notes: readonly string[], source: string): string {
  const list = notes.map((note) => `- ${note}`).join('\n');
  const filled = tables.filter(({ rows }) => rows.length > 0);
  return [...filled.map(tableText), list, source].filter((part) => part !== '').join('\n\n');
}

function tableText({ title, head, rows }: Table): string {
  const cells = rows.map((row) => row.map((cell) => (typeof cell === 'string' ? cell : spreadOrCount(cell))));
  const lines = [head, head.map(() => '---'), ...cells].map((row) => `| ${row.join(' | ')} |`);
  return `**${title}**\n\n${lines.join('\n')}`;
}

function spreadOrCount(cell: number | Sample): string {
  return typeof cell === 'number' ? count(cell) : spread(cell);
}

export function sourceText(date: string, machine: Machine, details: string): string {
  return `Machine: ${machineText(machine)}, ${date.slice(0, 10)}; ${details}.`;
}

export function machineText({ cpu, cores, node }: Machine): string {
  return `${cpu}, ${cores} cores, Node ${node}`;
}

export function thisMachine(): Machine {
  const cpus = os.cpus();
  return { cores: cpus.length, cpu: cpus[0]?.model.trim() ?? 'unknown CPU', node: process.version };
}

/** Beside more than this, a run on few cores measures the other work as well. */
export const MAX_LOAD = 2;

/**
 * The load average of the last minute. Call it before the run, which is load itself.
 * @throws Error if the figures are to be saved and the machine is not quiet
 */
export function loadBefore(isSaved: boolean): number {
  const load = os.loadavg()[0] ?? NaN;
  if (isSaved && load > MAX_LOAD)
    throw new Error(
      `--save: the load average is ${load.toFixed(1)}, and docs/ holds figures of at most ${MAX_LOAD}: wait for a quiet machine`,
    );
  return load;
}

/** Prints the result of a command. */
export async function print(isJson: boolean, result: unknown, text: string): Promise<void> {
  const shown = isJson ? `${JSON.stringify(result)}\n` : await formatted('report.md', text);
  process.stdout.write(shown);
}

/** Writes figures into docs/performance.md. @param json keeps the result beside it, in a file of docs/. */
export async function save(figures: Figures, json?: { name: string; result: unknown }): Promise<void> {
  if (json) writeFileSync(join(DOCS, json.name), await formatted(json.name, JSON.stringify(json.result)));
  writeFileSync(PAGE, await pageWith(readFileSync(PAGE, 'utf8'), figures));
}

/** The page with the figures of these commands in the place of those that it holds. */
export async function pageWith(page: string, figures: Figures): Promise<string> {
  let changed = page;
  for (const [command, text] of Object.entries(figures)) {
    const begin = `<!-- figures of ${command} -->`;
    const before = changed.indexOf(begin);
    const after = changed.indexOf(END, before);
    if (before === -1 || after === -1) throw new Error(`the page has no place for figures: ${begin}`);
    const shown = text
      ? `${text} By \`${command}\`.`
      : `No figures are committed yet: \`${command}\` writes them.`;
    changed = [changed.slice(0, before), begin, '\n\n', shown, '\n\n', changed.slice(after)].join('');
  }
  return formatted('page.md', changed);
}

/** The median, with the range of the middle half. */
export function spread({ median, low, high }: Sample, digits = median < 10 ? 1 : 0): string {
  if (!Number.isFinite(median)) return '–';
  return `${fixed(median, digits)} (${fixed(low, digits)}–${fixed(high, digits)})`;
}

export function fixed(value: number, digits: number): string {
  // toFixed first: it does not round a half of a decimal up, which binary numbers do not hold.
  const rounded = Number(value.toFixed(digits));
  return rounded.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export function count(value: number): string {
  return fixed(value, 0);
}

export function mib(bytes: number): string {
  return `${count(bytes / 1024 ** 2)} MiB`;
}

/** A change, with its sign. */
export function percent(share: number, digits = 0): string {
  return `${share < 0 ? '−' : '+'}${Math.abs(100 * share).toFixed(digits)}%`;
}
