// suite: tools
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { ROOT } from '../support/documents.ts';
import { ASVS_LEVELS } from './asvs-ids.ts';

interface Row {
  section: string;
  id: string;
  level: string;
  answer: string;
  why: string;
  /** Paths of files from the repository's root. */
  tests: string[];
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
const { rows, counts } = readRows(read('docs/asvs.md'));

const ANSWERS = ['yes', 'no', 'not applicable'];

test('every row is answered, and only a yes cites tests', (t) => {
  t.ok(rows.length > 100, `${rows.length} rows`);
  for (const { section, id, answer, why, tests } of rows) {
    t.ok(ANSWERS.includes(answer), `${section}, ${id}: ${answer}`);
    t.equal(tests.length > 0, answer === 'yes', `${section}, ${id}: ${tests.join(', ')}`);
    t.ok(why.length > 0, `${section}, ${id}: a reason`);
  }
  t.end();
});

test('the tables of ASVS have every requirement of their chapters, with its level', (t) => {
  for (const [chapter, sections] of Object.entries(ASVS_LEVELS)) {
    const all = sections.flatMap((levels, i) =>
      Array.from(levels, (level, j) => `${chapter.slice(1)}.${i + 1}.${j + 1}, level ${level}`),
    );
    const own = rows.filter(({ section }) => section.startsWith(`ASVS ${chapter} `));
    t.strictSame(
      own.map(({ id, level }) => `${id}, level ${level}`),
      all,
      chapter,
    );
  }
  t.end();
});

test('no table has an id twice', (t) => {
  const ids = rows.map(({ section, id }) => `${section}, ${id}`);
  t.strictSame([...new Set(ids)], ids);
  t.end();
});

test('the counts at the top are those of the rows', (t) => {
  const countsOf = (some: Row[]) =>
    ANSWERS.map((each) => some.filter(({ answer }) => answer === each).length);
  const sections = [...new Set(rows.map(({ section }) => section))];
  const counted = sections.map((name) => [name, countsOf(rows.filter(({ section }) => section === name))]);
  t.strictSame([...counts], [...counted, ['all', countsOf(rows)]]);
  t.end();
});

test('every file of tests that a row cites exists', (t) => {
  for (const { section, id, tests } of rows)
    for (const file of tests) t.ok(existsSync(join(ROOT, file)), `${section}, ${id}: ${file}`);
  t.end();
});

test('every test that docs/rotation.md cites exists, and is neither skipped nor todo', (t) => {
  // One citation a line: `T1 test/http/log.test.ts › each request logs one line with its id`.
  const citations = [...read('docs/rotation.md').matchAll(/^(T\d+) (\S+) › (.+)$/gm)];
  t.ok(citations.length > 10, `${citations.length} citations`);
  for (const [, label, file = '', name = ''] of citations) {
    const found = existsSync(join(ROOT, file)) ? findTest(read(file), name) : 'no such file';
    t.equal(found, 'runs', `${label}: ${file} › ${name}`);
  }
  t.end();
});

/** Finds the definition of a test in its file's text. A template's expressions stand for any text. */
function findTest(source: string, name: string): 'runs' | 'is missing' | 'is skipped or todo' {
  const definitions =
    /\b(test|onEachStore|onAStore(?:WithEachLasting)?|onEachLasting)(\.\w+)?\(\s*(?:t,\s*)?(['"`])((?:\\.|(?!\3).)*)\3,\s*(\{[^}]*\})?/g;
  for (const [, , method, quote, text = '', options = ''] of source.matchAll(definitions)) {
    if (!matches(text, name, quote === '`')) continue;
    const isOff = method !== undefined || /\btodo\b|\bskip: *(true|['"`])/.test(options);
    return isOff ? 'is skipped or todo' : 'runs';
  }
  return 'is missing';
}

function matches(text: string, name: string, isTemplate: boolean): boolean {
  const parts = isTemplate ? text.split(/\$\{[^}]*\}/) : [text];
  const literal = parts.map((part) =>
    part.replaceAll(/\\(.)/g, '$1').replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'),
  );
  return new RegExp(`^${literal.join('.+')}$`).test(name);
}

/** The rows of the tables, and the counts (yes, no, not applicable). */
function readRows(text: string): { rows: Row[]; counts: Map<string, number[]> } {
  const found: Row[] = [];
  const totals = new Map<string, number[]>();
  let section = '';
  for (const line of text.split('\n')) {
    section = /^## (.*)$/.exec(line)?.[1] ?? section;
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
    const [, id = '', , level = '', answer = '', why = ''] = cells;
    if (!line.startsWith('|') || /^(id|table|:?-+:?)$/.test(id)) continue;
    if (cells.length === 6) totals.set(id, cells.slice(2, 5).map(Number));
    else found.push({ section, id, level, answer, why, tests: citedFiles(why) });
  }
  return { rows: found, counts: totals };
}

/** `attack/guessing` is `test/attack/guessing.test.ts`; some files have their whole path. */
function citedFiles(text: string): string[] {
  return Array.from(text.matchAll(/`((?:[a-z0-9-]+\/)+[a-z0-9-]+)(\.test\.ts)?`/g), ([, path = '', ending]) =>
    ending === undefined ? `test/${path}.test.ts` : path + ending,
  );
}
