import { test } from 'tap';
import { FIELD_CODES } from '../../src/domain/errors.ts';
import { PROBLEMS } from '../../src/http/problem.ts';
import { FACT_NAMES, SOFT_FACTS } from '../../src/infra/installation/facts.ts';
import { migrationNames, shippedMigrations } from '../../src/infra/postgres/migration-files.ts';
import { allDocuments, readDocument } from '../support/documents.ts';
import { codeOf, readTable } from '../support/markdown.ts';
import { METRICS, problemsOn, SETTINGS } from './facts.ts';

const PAGES = allDocuments().filter((path) => !/^CHANGELOG\.md$|^docs\/adr\//.test(path));

test('every page says what the source says', (t) => {
  for (const page of PAGES) for (const problem of problemsOn(page, readDocument(page))) t.fail(problem);
  t.end();
});

test('the tables of reference leave nothing out', (t) => {
  const ofAgent = SETTINGS.filter((name) => /^(AGENT|LATCHKEY_(?!OPERATOR))/.test(name));
  const metrics = METRICS.filter((name) => name.startsWith('latchkey_agent_'));
  t.ok(ofAgent.length > 8 && metrics.length > 4);
  for (const name of [...ofAgent, ...metrics])
    t.match(readDocument('packages/agent/README.md'), `| \`${name}\` `, name);
  for (const code of Object.keys(PROBLEMS)) t.match(readDocument('docs/errors.md'), `| \`${code}\` `, code);
  const fields = readTable(readDocument('docs/errors.md'), /^\| *code *\| *`params` *\|/i);
  const limits: Record<string, string> = { too_short: 'min', too_long: 'max', too_many: 'max' };
  t.strictSame(
    fields.map(([code = '', params = '']) => [codeOf(code)[0], codeOf(params)[0] ?? '']),
    FIELD_CODES.map((code) => [code, limits[code] ?? '']),
    'the codes of fields, in order',
  );
  const [, agreed = ''] = readDocument('docs/operating.md').split('## What replicas agree on\n');
  for (const name of FACT_NAMES) t.match(agreed.split('\n## ')[0], `\`${name}\``, name);
  for (const name of SOFT_FACTS) t.match(readDocument('docs/observability.md'), `\`${name}\``, name);
  const upgrading = readDocument('docs/upgrading.md');
  for (const name of migrationNames(shippedMigrations())) t.match(upgrading, `\`${name}\``, name);
  t.end();
});

test('each measured figure of the README stands on the page to which it links', (t) => {
  const [, reasons = ''] = readDocument('README.md').split('## Why Latchkey\n');
  const facts =
    reasons
      .split(/\n(?:!|## )/)[0]
      ?.split(/^- /m)
      .slice(1) ?? [];
  t.equal(facts.length, 3);
  for (const fact of facts) {
    const page = /\]\((docs\/[\w/-]+\.md)#/.exec(fact)?.[1] ?? '';
    const text = readDocument(page);
    const figures = fact.match(/\d+(?:[.,]\d+)*/g) ?? [];
    t.ok(figures.length > 1, fact);
    for (const figure of figures)
      t.ok(new RegExp(`(?<![\\d.])${figure}(?!\\.?\\d)`).test(text), `${page} has ${figure}`);
  }
  t.end();
});

/** One of each kind of fact, with a part of its message: the test of the pages is green also if nothing is compared. */
const MISTAKES = {
  '`REFRESH_RETRY_WINDOW` (12 s)': 'its default is 10 seconds',
  '`LOG_LEVEL=loud`': 'it must be a level of pino',
  '403 `invalid_token`': 'its status is 401',
  'sum(rate(latchkey_errors[5m]))': 'there is no metric latchkey_errors',
  '```sh\nnpx latchkey user list \\\n  --most 3 | wc\n```': "Unknown option '--most'",
  '33<!-- =MAX_ROLES --> roles': 'marked as MAX_ROLES, which is 32',
};

test('mistakes are found, with their lines', (t) => {
  for (const [text, message] of Object.entries(MISTAKES)) {
    const [problem = '', ...others] = problemsOn('page', `A page.\n\n${text}\n`);
    t.match(problem, /^page:\d+: /, text);
    t.ok(problem.includes(message), `${text}: ${problem}`);
    t.strictSame(others, [], text);
  }
  t.end();
});
