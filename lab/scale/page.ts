import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatted, tableMarkdown, withFigures } from '../bench/page.ts';
import { chartsOf } from './charts.ts';
import { PARTS, type Part, type ScaleDocument } from './scale-document.ts';
import { tablesOf } from './tables.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;
const FIGURES = join(ROOT, 'docs/scaling.json');
const PAGE = join(ROOT, 'docs/scaling.md');

/** The committed figures of every part that has been measured. */
export function committedFigures(): ScaleDocument {
  return existsSync(FIGURES) ? (JSON.parse(readFileSync(FIGURES, 'utf8')) as ScaleDocument) : {};
}

/** Writes these parts to docs/scaling.json, keeps the others, and redraws the tables and charts of all. */
export async function saveFigures(measured: ScaleDocument): Promise<void> {
  const document = { ...committedFigures(), ...measured };
  writeFileSync(FIGURES, await formatted(FIGURES, JSON.stringify(document)));
  for (const [name, svg] of chartsOf(document)) writeFileSync(join(ROOT, 'docs/images', name), svg);
  writeFileSync(PAGE, await pageWith(readFileSync(PAGE, 'utf8'), document));
}

/** The page with these figures in the place of those that it holds. */
export async function pageWith(page: string, document: ScaleDocument): Promise<string> {
  let text = page;
  for (const part of PARTS) text = await withFigures(text, commandOf(part), figuresText(part, document));
  return text;
}

function commandOf(part: Part): string {
  return `npm run scale -- ${part} --save`;
}

function figuresText(part: Part, document: ScaleDocument): string {
  const machine = document[part]?.machine;
  if (!machine) return `No figures are committed yet: \`${commandOf(part)}\` writes them.`;
  const { cpu, cores, node, load, at } = machine;
  return [
    ...tablesOf(document)
      .filter((each) => each.part === part)
      .flatMap(({ tables }) => tables)
      .map((table) => `**${table.title}**\n\n${tableMarkdown(table)}`),
    `By \`${commandOf(part)}\` on ${at}: ${cpu}, ${cores} cores, Node ${node}; load average ${load.toFixed(1)}.`,
  ].join('\n\n');
}
