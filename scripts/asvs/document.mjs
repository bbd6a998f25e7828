// Reads docs/asvs.md: the rows of its tables, its counts, and the tests that rows cite.

/**
 * @typedef {{ section: string, id: string, level: string, answer: string, why: string, tests: string[] }} Row
 * @typedef {{ label: string, file: string, name: string }} Citation
 */

/** The labels in a row's last column. */
const LABEL = /\bT\d+\b/g;

/** @returns {{ rows: Row[], counts: Map<string, number[]>, citations: Citation[] }} counts: yes, no, not applicable */
export function readDocument(text) {
  const rows = [];
  const counts = new Map();
  let section = '';
  for (const line of text.split('\n')) {
    section = /^## (.*)$/.exec(line)?.[1] ?? section;
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    if (!line.startsWith('|') || /^(id|table|:?-+:?)$/.test(cells[1])) continue;
    if (cells.length === 6) counts.set(cells[1], cells.slice(2, 5).map(Number));
    else rows.push(rowOf(section, cells.slice(1, -1)));
  }
  return { rows, counts, citations: citationsIn(text) };
}

function rowOf(section, [id, , level, answer, why = '']) {
  return { section, id, level, answer, why, tests: why.match(LABEL) ?? [] };
}

/** One citation a line: `T1 test/http/log.test.ts › each request logs one line with its id`. */
function citationsIn(text) {
  return [...text.matchAll(/^(T\d+) (\S+) › (.+)$/gm)].map(([, label, file, name]) => ({
    label,
    file,
    name,
  }));
}

/** The name of a test without the store that it ran on (test/support/stores.ts). */
export function withoutStore(name) {
  return name.replace(/ \((in-process store|Redis)\)$/, '');
}
