import { changesBetween, type BenchDocument } from './document.ts';
import { changeTable, doubtsOf, machineLine, tablesOf, type Table } from './tables.ts';

/**
 * The tables for a terminal.
 * @param committed the figures to compare with; null if none are committed, undefined if these cannot be compared.
 */
export function reportText(document: BenchDocument, committed: BenchDocument | null | undefined): string {
  const tables = tablesOf(document);
  if (committed) {
    const changes = changeTable(changesBetween(document, committed));
    if (changes.rows.length > 0) tables.push(changes);
  }
  const notes = [...doubtsOf(document), ...comparisonNotes(document, committed)];
  const lines = [...notes.map((note) => `- ${note}`), machineLine(document)];
  return `${tables.map(tableText).join('\n')}\n${lines.join('\n')}\n`;
}

function comparisonNotes({ machine }: BenchDocument, committed: BenchDocument | null | undefined): string[] {
  if (committed === undefined) return [];
  if (committed === null) return ['no figures are committed to compare with (docs/benchmarks.json)'];
  const { cores, cpu, node } = committed.machine;
  if (cores === machine.cores && cpu === machine.cpu && node === machine.node) return [];
  return [`the committed figures are of another machine: ${machineLine(committed)}`];
}

/** Columns of equal width; figures to the right. */
export function tableText({ title, head, rows }: Table): string {
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at]?.length ?? 0)));
  const isNumber = head.map((_, at) => rows.every((row) => /^[+-]?[\d.,]*( \(.*\))?%?$/.test(row[at] ?? '')));
  const lines = [head, ...rows].map((row) =>
    row
      .map((cell, at) => (isNumber[at] ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
  return `${title}\n  ${lines.join('\n  ')}\n`;
}
