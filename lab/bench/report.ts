import { existsSync, readFileSync } from 'node:fs';
import { machineText, reportText, sourceText, type Figures } from '../table.ts';
import { changesBetween, readDocument, type BenchDocument } from './document.ts';
import { changeTable, doubtsOf, pageNotes, pageTable, pageTablesOf, tablesOf } from './tables.ts';

export const COMMAND = 'npm run bench -- --save';
/** In docs/. */
export const FIGURES = 'benchmarks.json';
const COMMITTED = new URL(`../../../docs/${FIGURES}`, import.meta.url).pathname;

/** @returns null if no figures are committed. */
export function committedFigures(): BenchDocument | null {
  return existsSync(COMMITTED) ? readDocument(readFileSync(COMMITTED, 'utf8')) : null;
}

/** For docs/performance.md: one table of the whole run. The terminal and the JSON have the rest. */
export function figuresOf(document: BenchDocument | null): Figures {
  return { [COMMAND]: document && pageText(document) };
}

function pageText(document: BenchDocument): string {
  const { date, machine, settings } = document;
  return reportText(
    [pageTable(document), ...pageTablesOf(document)],
    pageNotes(document),
    sourceText(date, machine, settingsText(settings)),
  );
}

/** @param committed the figures to compare with; null if none are committed, undefined to compare with none. */
export function benchText(document: BenchDocument, committed: BenchDocument | null | undefined): string {
  const { date, machine, settings } = document;
  const changes = committed ? [changeTable(changesBetween(document, committed))] : [];
  return reportText(
    [...tablesOf(document), ...changes],
    [...doubtsOf(document), ...comparisonNotes(document, committed)],
    sourceText(date, machine, settingsText(settings)),
  );
}

export function settingsText({ connections, rounds, seconds }: BenchDocument['settings']): string {
  return `${connections} connections, medians of ${rounds} rounds of ${seconds} s`;
}

function comparisonNotes({ machine }: BenchDocument, committed: BenchDocument | null | undefined): string[] {
  if (committed === undefined) return [];
  if (committed === null) return ['no figures are committed to compare with (docs/benchmarks.json)'];
  const theirs = machineText(committed.machine);
  return theirs === machineText(machine) ? [] : [`the committed figures are of another machine: ${theirs}`];
}
