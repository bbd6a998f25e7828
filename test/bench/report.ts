import { changesBetween, type BenchDocument } from './document.ts';
import { changeTable, doubtsOf, machineLine, tablesOf, type Table } from './tables.ts';

/** The tables for a terminal. @param committed the figures to compare with; null if there are none. */
export function reportText(document: BenchDocument, committed: BenchDocument | null): string {
  const tables = tablesOf(document);
  if (committed && document.speed.operations.length > 0)
    tables.push(changeTable(changesBetween(document, committed)));
  const notes = [...doubtsOf(document), ...comparisonNotes(document, committed)];
  const lines = [...notes.map((note) => `- ${note}`), machineLine(document)];
  return `${tables.map(tableText).join('\n')}\n${lines.join('\n')}\n`;
}

function comparisonNotes({ machine }: BenchDocument, committed: BenchDocument | null): string[] {
  if (!committed) return ['there are no committed figures to compare with'];
  const { cores, cpu, node } = committed.machine;
  if (cores === machine.cores && cpu === machine.cpu && node === machine.node) return [];
  return [`the committed figures are of another machine: ${machineLine(committed)}`];
}

/** Columns of equal width; figures to the right. */
function tableText({ title, head, rows }: Table): string {
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
