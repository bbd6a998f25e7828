import type { Vector } from './run-vector.ts';
import { readDocument } from '../../../test/support/documents.ts';
import { formatted } from '../../../test/support/formatted.ts';

export function readVectors(): readonly Vector[] {
  return (JSON.parse(readDocument('packages/client/test/vectors.json')) as { rows: Vector[] }).rows;
}

/** The text of docs/clients.md, with its table written anew. @param text as it is now */
export async function clientsDocument(text: string): Promise<string> {
  const rows = readVectors().map(({ id, happened, do: action }) => `| \`${id}\` | ${happened} | ${action} |`);
  const table = ['| row | what happened | what to do |', '| --- | --- | --- |', ...rows].join('\n');
  const parts = /^([^]*<!-- the rows of vectors\.json -->\n)[^]*(\n<!-- end of the rows -->[^]*)$/.exec(text);
  if (!parts) throw new Error('docs/clients.md has no marks around its table');
  return formatted('clients.md', [parts[1], table, parts[2]].join('\n'));
}
