import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { test } from 'tap';
import { allDocuments, DOCUMENTS, NOT_RUN, readDocument, ROOT } from '../support/documents.ts';
import { readBlocks } from '../support/markdown.ts';

/** Languages that GitHub highlights. A block without a language would hide a shell block from the tests. */
const LANGUAGES = [
  'sh',
  'sql',
  'json',
  'ts',
  'mermaid',
  'text',
  'nginx',
  'apache',
  'haproxy',
  'yaml',
  'toml',
  'python',
];

const files = allDocuments();

test('the list of documents and the index by reader contain every document below docs', (t) => {
  const found = files.filter((path) =>
    /^(docs|docs\/integrating|packages\/\w+)\/[^/]+$|^[A-Z]+\.md$/.test(path),
  );
  const apart = ['ARCHITECTURE.md', 'CHANGELOG.md'];
  t.strictSame([...DOCUMENTS, ...apart].sort(), found.sort());
  const linked = linksIn('docs/README.md').map(({ file }) => file);
  for (const path of found)
    if (path !== 'docs/README.md') t.ok(linked.includes(path), `${path} is in the index`);
  t.end();
});

test('every link leads to an existing file and heading', (t) => {
  let count = 0;
  for (const path of files) {
    for (const { file, anchor, text } of linksIn(path)) {
      count++;
      if (!existsSync(join(ROOT, file))) t.fail(`${path}: ${text}`);
      else if (anchor !== undefined && !anchorsOf(file).has(anchor)) t.fail(`${path}: ${text}`);
    }
  }
  t.ok(count > 100, `${count} links`);
  t.end();
});

test('no link leads out of a package that npm or helm packs', (t) => {
  const packages = ['verifier', 'agent', 'client', 'load'].map((name) => `packages/${name}/README.md`);
  for (const path of [...packages, 'charts/latchkey/README.md'])
    t.strictSame(
      linksIn(path).filter(({ file }) => file !== path),
      [],
    );
  t.end();
});

test('a shell block runs, or has a mark with a fitting reason', (t) => {
  let marked = 0;
  for (const path of DOCUMENTS) {
    for (const { language, text, mark } of readBlocks(readDocument(path))) {
      t.ok(LANGUAGES.includes(language), `${path}: ${language}`);
      if (mark === null) continue;
      t.equal(language, 'sh', `${path}: only shell blocks are marked`);
      if (mark.name === 'terminal') {
        t.match(mark.value, /^http:\/\/localhost:\d+\//, path);
      } else {
        t.equal(mark.name, 'not run', path);
        t.match(text, NOT_RUN[mark.value] ?? /never/, `${path}: ${mark.value}`);
        marked++;
      }
    }
  }
  t.ok(marked > 5);
  t.end();
});

test('docs/api.md and docs/services.md list every operation of the reference', (t) => {
  const { paths } = JSON.parse(readFileSync(join(ROOT, 'docs/openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, unknown>>;
  };
  const sections = { 'docs/api.md': 'Operations', 'docs/services.md': 'Users, for services' };
  const table = Object.entries(sections)
    .map(([page, title]) => readDocument(page).split(`## ${title}\n`)[1]?.split(/^## /m)[0] ?? '')
    .join('');
  // In `X`, `Y` the second shares the method of the first.
  const listed = [...table.matchAll(/`(?:([A-Z]+) )?(\/[\w./{}-]+)`/g)];
  let method = '';
  const known = listed.map(([, own, path]) => `${(method = own ?? method)} ${path}`);
  for (const [path, operations] of Object.entries(paths)) {
    for (const name of Object.keys(operations).filter((each) => /^(get|post|patch|delete)$/.test(each))) {
      if (path.endsWith('/verify')) t.match(table, `${path}\` or any path below it`);
      else t.ok(known.includes(`${name.toUpperCase()} ${path}`), `${name} ${path}`);
    }
  }
  t.end();
});

test('the snippet of nginx appears in the tested file', (t) => {
  const upstream = readBlocks(readDocument('docs/performance.md')).find(
    ({ language }) => language === 'nginx',
  );
  t.match(upstream?.text, 'max_fails=0');
  t.ok(
    unindented(readDocument('deploy/nginx/two-replicas.conf')).includes(unindented(upstream?.text ?? '-')),
  );
  t.end();
});

function unindented(text: string): string {
  return text.replaceAll(/^[ \t]+/gm, '');
}

interface Link {
  /** Relative to the root of the project. */
  file: string;
  anchor: string | undefined;
  text: string;
}

/** Links of a document to files of the project. */
function linksIn(path: string): Link[] {
  const prose = readDocument(path).replaceAll(/^ *```[^]*?^ *```$|`[^`\n]*`/gm, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^https?:/.test(target))
    .map((text) => {
      const [file = '', anchor] = text.split('#');
      return { file: file === '' ? path : normalize(join(dirname(path), file)), anchor, text };
    });
}

/** The anchors that GitHub gives to headings. */
function anchorsOf(path: string): Set<string> {
  const seen = new Map<string, number>();
  const anchors = new Set<string>();
  for (const [, heading = ''] of readDocument(path).matchAll(/^#+ (.*)$/gm)) {
    const slug = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    const count = seen.get(slug) ?? 0;
    seen.set(slug, count + 1);
    anchors.add(count === 0 ? slug : `${slug}-${count}`);
  }
  return anchors;
}

test('docs/adr/README.md lists every decision', (t) => {
  const decisions = readdirSync(join(ROOT, 'docs/adr')).filter((name) => /^\d{4}-/.test(name));
  const listed = linksIn('docs/adr/README.md').map(({ file }) => basename(file));
  t.strictSame([...new Set(listed)].sort(), decisions.sort());
  t.end();
});
