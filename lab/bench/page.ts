import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import prettier from 'prettier';
import { readDocument, type BenchDocument } from './document.ts';
import { doubtsOf, machineLine, tablesOf, type Table } from './tables.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const FIGURES = join(ROOT, 'docs/benchmarks.json');
const PAGE = join(ROOT, 'docs/benchmarks.md');
const COMMAND = 'npm run bench -- --save';
const END = '<!-- end of the figures -->';

/** @returns null if no figures are committed. */
export function committedFigures(): BenchDocument | null {
  return existsSync(FIGURES) ? readDocument(readFileSync(FIGURES, 'utf8')) : null;
}

/** Writes docs/benchmarks.json and the tables of docs/benchmarks.md, without a ruler: it is no part of the project. */
export async function saveFigures({ speed, ...others }: BenchDocument): Promise<void> {
  const { floor = 0, service = 0 } = speed.resident;
  const document = { ...others, speed: { ...speed, ruler: [], resident: { floor, service } } };
  writeFileSync(FIGURES, await formatted(FIGURES, JSON.stringify(document)));
  writeFileSync(PAGE, await pageWith(readFileSync(PAGE, 'utf8'), document));
}

/** The page with these figures in the place of those that it holds. */
export async function pageWith(page: string, document: BenchDocument | null): Promise<string> {
  return withFigures(page, COMMAND, figuresText(document));
}

/** The page with the figures of a command in the place of those that it holds. */
export async function withFigures(page: string, command: string, text: string): Promise<string> {
  const begin = `<!-- figures of ${command} -->`;
  const before = page.indexOf(begin);
  const after = page.indexOf(END, before);
  if (before === -1 || after === -1) throw new Error(`docs/benchmarks.md has no place for figures: ${begin}`);
  return formatted(PAGE, [page.slice(0, before), begin, '\n\n', text, '\n\n', page.slice(after)].join(''));
}

function figuresText(document: BenchDocument | null): string {
  if (!document) return `No figures are committed yet: \`${COMMAND}\` writes them.`;
  const doubts = doubtsOf(document).map((doubt) => `- ${doubt}`);
  return [
    ...tablesOf(document).map(
      (table) => `### ${table.title}\n\n${tableMarkdown(table)}\n\nBy \`${COMMAND}\`.`,
    ),
    ...(doubts.length > 0 ? ['### Doubts about this run', doubts.join('\n')] : []),
    `Machine: ${machineLine(document)}.`,
  ].join('\n\n');
}

export function tableMarkdown({ head, rows }: Table): string {
  return [head, head.map(() => '---'), ...rows].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

export async function formatted(path: string, text: string): Promise<string> {
  const style = await prettier.resolveConfig(path);
  return prettier.format(text, { ...style, filepath: path });
}
