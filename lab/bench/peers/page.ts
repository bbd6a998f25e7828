import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { formatted, tableMarkdown, withFigures } from '../page.ts';
import { machineLine } from '../tables.ts';
import { readPeersDocument, type PeersDocument } from './document.ts';
import { PUBLISHED_NOTES } from './published.ts';
import { peerNotes, peerTables } from './tables.ts';

const ROOT = new URL('../../../../', import.meta.url).pathname;
const FIGURES = join(ROOT, 'docs/benchmarks-peers.json');
const PAGE = join(ROOT, 'docs/benchmarks.md');
const COMMAND = 'npm run bench -- --peers --save';

/** @returns null if no figures are committed. */
export function committedPeers(): PeersDocument | null {
  return existsSync(FIGURES) ? readPeersDocument(readFileSync(FIGURES, 'utf8')) : null;
}

/** Writes docs/benchmarks-peers.json and the tables of the peers in docs/benchmarks.md. */
export async function savePeers(document: PeersDocument): Promise<void> {
  writeFileSync(FIGURES, await formatted(FIGURES, JSON.stringify(document)));
  writeFileSync(PAGE, await pageWithPeers(readFileSync(PAGE, 'utf8'), document));
}

/** The page with these figures in the place of those that it holds. */
export async function pageWithPeers(page: string, document: PeersDocument | null): Promise<string> {
  return withFigures(page, COMMAND, peersMarkdown(document));
}

function peersMarkdown(document: PeersDocument | null): string {
  if (!document) return `No figures are committed yet: \`${COMMAND}\` writes them.`;
  return [
    ...peerTables(document).map((table) => `### ${table.title}\n\n${tableMarkdown(table)}`),
    listOf(PUBLISHED_NOTES),
    `### About this run of the peers\n\n${listOf(peerNotes(document))}`,
    `By \`${COMMAND}\`. Machine: ${machineLine(document)}.`,
  ].join('\n\n');
}

function listOf(notes: readonly string[]): string {
  return notes.map((note) => `- ${note}`).join('\n');
}
