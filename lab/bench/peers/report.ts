import { tableText } from '../report.ts';
import { machineLine } from '../tables.ts';
import type { PeersDocument } from './document.ts';
import { PUBLISHED_NOTES } from './published.ts';
import { peerNotes, peerTables } from './tables.ts';

/** The tables for a terminal. */
export function peersText(document: PeersDocument): string {
  const lines = [...PUBLISHED_NOTES, ...peerNotes(document)].map((note) => `- ${note}`);
  return `${peerTables(document).map(tableText).join('\n')}\n${lines.join('\n')}\n${machineLine(document)}\n`;
}
