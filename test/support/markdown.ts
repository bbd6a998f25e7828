/** The cells of the table whose head fits, row by row. @throws Error where there is no such table or it is empty. */
export function readTable(markdown: string, head: RegExp): string[][] {
  const lines = markdown.split('\n');
  const start = lines.findIndex((line) => head.test(line));
  if (start === -1) throw new Error(`no table with the head ${String(head)}`);
  const end = lines.findIndex((line, i) => i > start && !line.startsWith('|'));
  const rows = lines
    .slice(start + 2, end === -1 ? undefined : end)
    .map((line) => splitCells(line).map((cell) => cell.trim().replaceAll('\\|', '|')));
  if (rows.length === 0) throw new Error(`the table with the head ${String(head)} is empty`);
  return rows;
}

function splitCells(line: string): string[] {
  return line.replace(/^\||\|\s*$/g, '').split(/(?<!\\)\|/);
}

/** What is written as code in a cell, in order; the cell itself where nothing is. */
export function codeOf(cell: string): string[] {
  const found = [...cell.matchAll(/`([^`]*)`/g)].map(([, text = '']) => text);
  return found.length > 0 ? found : [cell];
}
