/** The cells of the table with a matching head, row by row. @throws Error if there is no such table or it is empty. */
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

/** The code spans in a cell, in order. Without any, the cell's text. */
export function codeOf(cell: string): string[] {
  const found = [...cell.matchAll(/`([^`]*)`/g)].map(([, text = '']) => text);
  return found.length > 0 ? found : [cell];
}

/** A fenced block, with the comment that directly precedes it. */
export interface Block {
  language: string;
  text: string;
  /** From `<!-- name: value -->`; null without such a comment. */
  mark: { name: string; value: string } | null;
  /** The heading `##` above it; empty before the first. */
  section: string;
}

export function readBlocks(markdown: string): Block[] {
  const blocks: Block[] = [];
  let section = '';
  let mark: Block['mark'] = null;
  for (const match of markdown.matchAll(
    /^## (?<title>.*)$|^<!-- (?<name>[\w ]+): (?<value>.*) -->\n|^ *```(?<language>.*)\n(?<text>[^]*?)^ *```$|^(?<other>.+)$/gm,
  )) {
    const { title, name, value = '', language, text = '', other } = match.groups ?? {};
    if (title !== undefined) section = title;
    if (language !== undefined) blocks.push({ language, text, mark, section });
    if (name !== undefined) mark = { name, value };
    else if (language !== undefined || other !== undefined || title !== undefined) mark = null;
  }
  return blocks;
}
