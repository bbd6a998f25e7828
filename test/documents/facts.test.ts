import { test } from 'tap';
import { FIELD_CODES } from '../../src/domain/errors.ts';
import { PROBLEMS } from '../../src/http/problem.ts';
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
    const figures = fact.match(/\d+\.\d+/g) ?? [];
    t.ok(figures.length > 1, fact);
    for (const figure of figures)
      t.ok(new RegExp(`(?<![\\d.])${figure}(?![\\d.])`).test(text), `${page} has ${figure}`);
  }
  t.end();
});

/** Each with a part of its one message. */
const MISTAKES = {
  '`REFRESH_RETRY_WINDOW` (12 s)': 'its default is 10 seconds',
  '[`REFRESH_RETRY_WINDOW`](a.md) (10\nmin)': 'its default is 10 seconds',
  'the default of `MAX_SESSIONS_PER_USER` is 10': 'its default is 100',
  '| `PORT` | 4000 |': 'its default is 3000',
  '`RATE_LIMIT_LLT` (100 tokens a day)': 'its default is 100/3600',
  '`RATE_LIMIT_LLT` (90/3600)': 'its default is 100/3600',
  '`HASH_MEMORY` (1 MiB)': 'its default is 0 MiB',
  '`LLT_ENABLED` (false)': 'its default is true',
  '`AGENT_ACCEPT` (`access`)': 'its default is access,llt',
  '`maxStaleness` (3 min)': 'its default is 120 seconds',
  '`--skip-ids N` (20)': 'its default is 20000000',
  'It publishes a key ten minutes before it signs (`KEY_PUBLISH_LEAD`).': 'write the default as',
  '`LOG_LEVEL=loud`': 'it must be a level of pino',
  '`REFRESH_RETRIES`': 'there is no setting REFRESH_RETRIES',
  '```sh\nREFRESH_RETRIES=1 npm start\n```': 'there is no setting REFRESH_RETRIES',
  '`HASHES_*`': 'there is no setting HASHES_*',
  '403 `invalid_token`': 'its status is 401',
  '| 403 | `invalid_token` |': 'its status is 401',
  '503 `unavailable` or `invalid_token`': '`invalid_token` stands with 503, and its status is 401',
  '`invalid_token` (403)': 'its status is 401',
  '`token_bad`': 'there is no name token_bad',
  'sum(rate(latchkey_errors[5m]))': 'there is no metric latchkey_errors',
  '`LatchkeyDown`': 'there is no alert LatchkeyDown',
  '`npx latchkey user remove NAME`': 'there is no command latchkey user remove',
  '`user remove`': 'there is no command latchkey user remove',
  '```sh\nnpx latchkey user list \\\n  --most 3 | wc\n```': "Unknown option '--most'",
  '`latchkey purge --limit 3`': '--limit is an option of user list, not of purge',
  '`npx latchkey-load mixed-day --speed 3`': "Unknown option '--speed'",
  '`--speed`': 'there is no name --speed',
  '`npm run nothing`': 'there is no script nothing',
  '`src/nothing.ts`': 'there is no file src/nothing.ts',
  '33<!-- =MAX_ROLES --> roles': 'marked as MAX_ROLES, which is 32',
  '32<!-- =MOST_ROLES --> roles': 'which is nowhere in the source',
};

const RIGHT = `Within \`REFRESH_RETRY_WINDOW\` (10 s) and \`DATABASE_TIMEOUT\` (5 s), \`KEY_PUBLISH_LEAD\` (ten minutes),
\`RATE_LIMIT_LOGIN\` (30 a minute), \`config.SHED_REDIS_MEMORY\` (85%), two \`SESSION_CACHE_TTL\` (1 h), \`LLT_ENABLED\` (true),
\`OTEL_SDK_DISABLED\` (\`false\`), \`REDIS_URL_FILE\`, \`SCRYPT_*\` and \`RATE_LIMIT_LOGIN=0\`: if \`LLT_MAX_AGE\` is 60, then
401 \`invalid_token\`, \`latchkey_hash_wait_seconds_bucket\`, \`npx latchkey keys add [--alg ES256|EdDSA]\`, \`latchkey …\`,
32<!-- =MAX_ROLES --> roles, 16 KiB<!-- =BODY_LIMIT -->, 5 s<!-- =TOLERATED -->.
| \`DATABASE_POOL\` | 10; 223 connections at most |`;

test('each kind of mistake is found, with its line', (t) => {
  for (const [text, message] of Object.entries(MISTAKES)) {
    const [problem = '', ...others] = problemsOn('page', `A page.\n\n${text}\n`);
    t.match(problem, /^page:\d+: /, text);
    t.ok(problem.includes(message), `${text}: ${problem}`);
    t.strictSame(others, [], text);
  }
  t.match(problemsOn('page', '\n```sh\nnpm run nothing\n```\n')[0], /^page:3: /);
  t.strictSame(problemsOn('page', RIGHT), []);
  t.end();
});
