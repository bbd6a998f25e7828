import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { readConfiguration, urlOf } from '../../packages/agent/src/configuration.ts';
import { makeMetrics } from '../../packages/agent/src/metrics.ts';
import { parseWords, readArguments } from '../../packages/load/src/arguments.ts';
import { readOptions } from '../../packages/verifier/src/options.ts';
import { parseArguments, USAGE, usageOf } from '../../src/cli/arguments.ts';
import type { Description } from '../../src/config/field-kinds.ts';
import { FIELDS } from '../../src/config/fields.ts';
import { PROBLEMS } from '../../src/http/problem.ts';
import { readRules } from '../support/alert-rules.ts';
import { ROOT } from '../support/documents.ts';
import { QUANTITY, readQuantity, states } from './quantity.ts';

/** Names on the pages that belong to other software, to tests, or to an example. */
const ELSEWHERE = new Set(
  `EAI_AGAIN SQL_ASCII CURRENT_USER ERR_TLS_ NAME_FILE USER_ID BUILDAH_ISOLATION BUILDAH_OPTIONS NODE_IMAGE
  NODE_EXTRA_CA_CERTS NODE_USE_ENV_PROXY HTTPS_PROXY NO_PROXY MINIO_IDENTITY_OPENID_CLAIM_NAME OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_TRACES_SAMPLER
  OTEL_BSP_* FUZZ_COUNT FUZZ_SEED SOAK_MINUTES SCALE_SESSIONS BENCH_BUDGET_ROUNDS BENCH_LATENCY_CORES TEST_SCALE TEST_GO TEST_DATABASE_URL
  TEST_REDIS_URL latchkey_owner latchkey_admin auth_time httpd_can_network_connect pg_last_wal_receive_lsn
  synchronous_mode synchronous_mode_strict add_something jwt_issuer oauth2_claim jwt_authn require_expiration
  oidc_discovery_url bound_audiences prisma/migrations/TIMESTAMP_add_something/migration.sql
  UPDATE_PASSWORD
  --stop-timeout --health-cmd --service-account-issuer --oidc-signing-algs --oidc-client-id`.split(/\s+/),
);

const SOURCES = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' })
  .trim()
  .split('\n')
  .filter(
    (path) =>
      !/^docs\/|^test\/documents\/|\.(md|bin|png)$|-lock\.json$/.test(path) && existsSync(join(ROOT, path)),
  )
  .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));

function found(paths: RegExp, pattern: RegExp): string[] {
  return SOURCES.filter(({ path }) => paths.test(path)).flatMap(({ text }) => text.match(pattern) ?? []);
}

const agent = readConfiguration({
  LATCHKEY_URL: 'http://a',
  LATCHKEY_AUDIENCE: 'a',
  LATCHKEY_CLIENT_ID: 'a',
  LATCHKEY_CLIENT_SECRET: 'a',
});
const verifier = readOptions({ issuer: 'http://a', audience: 'a', client: { id: 'a', secret: 'a' } });
const load = readArguments(['mixed-day', '--url', 'http://localhost:1', '--sign-up'], {});

/** Each setting and option with its default and the default's unit. */
const DEFAULTS = new Map<string, string>([
  ...Object.entries<Description>(FIELDS).map(([name, { defaultText, type }]): [string, string] => {
    const unit = /^(?:seconds|milliseconds|MiB|percent)(?=, )/.exec(type)?.[0] ?? '';
    return [name, `${defaultText} ${unit}`.trim()];
  }),
  ['AGENT_ACCEPT', String(agent.verifier.accept)],
  ['AGENT_MAX_STALENESS', `${agent.verifier.maxStaleness} seconds`],
  ['AGENT_WHEN_STALE', String(agent.verifier.whenStale)],
  ['AGENT_LISTEN', urlOf(agent.listen).replace('http://', '')],
  ['AGENT_OPS_LISTEN', urlOf(agent.ops).replace('http://', '')],
  ['LOAD_LOST', String(load.lost)],
  ['LOAD_CONNECTIONS', String(load.connections)],
  ['accept', String(verifier.accept)],
  ['maxStaleness', `${verifier.maxStaleness} seconds`],
  ['whenStale', verifier.whenStale],
  ['clockTolerance', `${verifier.clockTolerance} seconds`],
  ['tokenCache.size', String(verifier.tokenCache.size)],
  ['tokenCache.bytes', `${verifier.tokenCache.bytes} bytes`],
  ['longLived.cacheSize', String(verifier.cacheSize)],
  ...Object.entries(parseArguments([]).values).flatMap(([name, value]): [string, string][] =>
    typeof value === 'string' ? [[`--${name}`, value]] : [],
  ),
]);

export const SETTINGS = [
  ...DEFAULTS.keys(),
  ...Object.keys(FIELDS).map((name) => `${name}_FILE`),
  ...['ID', 'SECRET', 'SECRET_FILE', 'TOKEN_FILE'].map((name) => `LATCHKEY_CLIENT_${name}`),
  ...found(/^packages\/(agent|load)\/src\//, /(?<=['.])(?:LATCHKEY|AGENT|LOAD)_[A-Z_]+/g),
  ...found(/^examples\/mailer\//, /\b(?:MAIL|PAGE)_[A-Z]+/g),
];
export const METRICS = [
  ...found(/^src\/infra\/metrics\//, /(?<=')latchkey_\w+(?=')/g),
  ...[
    ...makeMetrics()
      .exposition(true, 0, 0)
      .matchAll(/# TYPE (\w+)/g),
  ].map(([, name = '']) => name),
];
const ALERTS = [
  ...readRules().alerts.map(({ alert }) => alert),
  ...found(/^packages\/\w+\/src\//, /\bLatchkey[A-Z]\w+/g),
];
const SCRIPTS = found(/^package\.json$/, /(?<=^ {4}")[\w:-]+(?=":)/gm);
/** The second words of commands, and of names that look like commands, each with its first. */
const ACTIONS = found(/^src\//, /(?<=')(?:client|keys|readers|user) [a-z-]+(?=')/g);
const NAMES = new Set(found(/./, /--[a-z][a-z\d-]+|[A-Za-z]\w*/g));

const NAME = '`(?:config\\.)?(?<name>(?:--)?[\\w.-]+)(?: [A-Z]+)?`(?:\\]\\([^)\\s]*\\))?';
const TEXT = '`(?:\\d[^`\\n]*|[^`\\n/]*)`(?=\\))|(?:true|false|none)(?=[),:;])';
/** `NAME` (value), `NAME` is value, and a cell that follows the name. */
const DEFAULT = [
  `${NAME}\\s*\\((?<value>${QUANTITY}|${TEXT})`,
  `(?<!\\b(?:if|when|while|unless|with|an?)\\s)${NAME}(?:\\s+(?:is|of|defaults\\s+to))?\\s+(?<value>${QUANTITY})`,
  `${NAME}\\s*\\|\\s*(?<value>${QUANTITY}|\`\\d[^\`|]*\`)`,
];
const SENTENCE = /(?:[^|.!?\n]|[.!?](?!\s)|\n(?!\s*(?:\n|[-*]\s|\d+\.\s)))+/g;
/** 401 `a`; 401 `a` or `b`; 401 with `a`; 401 | `a`; `a` (401); `a` | 401. */
const ERROR = [
  '(?<=\\b(?<status>[45]\\d\\d)(?:\\s+|\\s+with\\s+|\\s*[(|]\\s*)(?:`\\w+`(?:,|\\s+or)\\s+)*)`(?<name>[a-z_]+)`',
  '`(?<name>[a-z_]+)`\\s*[(|]?\\s*(?<status>[45]\\d\\d)\\b',
];
const LIMIT = `(?<value>${QUANTITY})?<!-- =(?<name>\\w+) -->(?<unit> (?:KiB|MiB|s|min|h|days)\\b)?`;
const WORDS = '(?<name>(?:\\\\\\n|[^\\S\\n]|[^\\s|;&<>()`\\\\#]+)*)';
const FOLDER = 'src|test|packages|deploy|scripts|lab|k8s|charts|examples|prisma|docs';

interface Groups {
  [name: string]: string | undefined;
  name: string;
}

/** What is wrong on a page, as `page:line: what is written, and what the source says`. */
export function problemsOn(page: string, text: string): string[] {
  const problems = new Set<string>();
  const prose = text.replaceAll(/^ *```[^]*?^ *```$/gm, (block) => block.replaceAll(/[^\n]/g, ' '));
  const shell = text.replaceAll(/(^ *```sh\n[^]*?^ *```$)|[^\n]/gm, (_, block = ' ') => block as string);
  const compared = new Set<number>();
  function note(at: number, problem: string) {
    problems.add(`${page}:${text.slice(0, at).split('\n').length}: ${problem.replaceAll(/\s+/g, ' ')}`);
  }
  function each(where: string, pattern: string, check: (groups: Groups) => string | null) {
    for (const { groups = {}, indices } of where.matchAll(new RegExp(pattern, 'dgm'))) {
      const { name, value = name } = indices?.groups ?? {};
      compared.add(value?.[0] ?? 0);
      const problem = check(groups as Groups);
      if (problem !== null) note(name?.[0] ?? 0, problem);
    }
  }
  const inCode = (name: string) => `(?<=\`[^\`\\n]*)(?<![\\w./-])(?<name>${name})(?![\\w./-])(?=[^\`\\n]*\`)`;

  // An example has settings of its own.
  if (!page.startsWith('examples/')) for (const pattern of DEFAULT) each(prose, pattern, defaultProblem);
  // A sentence that has a setting and its value in another form would not be compared.
  for (const { 0: sentence, index } of prose.matchAll(SENTENCE))
    for (const [, name = ''] of sentence.matchAll(new RegExp(NAME, 'g')))
      for (const { 0: value, index: start } of sentence.matchAll(new RegExp(QUANTITY, 'g')))
        if (isDefault(value, name) && !compared.has(index + start))
          note(index + start, `write the default as \`${name}\` (${value})`);
  for (const pattern of ERROR) each(prose, pattern, statusProblem);
  each(prose, LIMIT, limitProblem);
  each(prose, '`(?<name>[A-Z][A-Z\\d_]*)=(?<value>[^`\\s]*)`', exampleProblem);
  each(prose, inCode('[A-Z][A-Z\\d]*_[A-Z\\d_]*\\*?'), ({ name }) => unknown('setting', name, SETTINGS));
  each(shell, '(?<=^|[\\s;(])(?<name>[A-Z][A-Z\\d]*_[A-Z\\d_]+)(?==)', ({ name }) =>
    shell.includes(`$${name}`) ? null : unknown('setting', name, SETTINGS),
  );
  each(text, '(?<![\\w/])(?<name>latchkey_[a-z_]+\\*?)', ({ name }) =>
    unknown('metric', name.replace(/_(bucket|count|sum)$/, ''), METRICS),
  );
  each(text, '\\b(?<name>Latchkey[A-Z]\\w+)', ({ name }) => unknown('alert', name, ALERTS));
  each(text, 'npm run (?<name>[\\w:-]+)', ({ name }) => unknown('script', name, SCRIPTS));
  each(shell, `(?:npx latchkey(?<kit>-load)?|^latchkey_admin|/cli\\.js)(?=\\s)${WORDS}`, commandProblem);
  each(prose, `(?<=\`)(?:(?:npx )?latchkey(?<kit>-load)?|latchkey_admin)(?=\\s)${WORDS}`, commandProblem);
  each(prose, `(?<=\`)(?=(?:keys|user|client) [a-z]+\\b)${WORDS}`, commandProblem);
  for (const name of [inCode('[a-z][a-z\\d]*(?:_[a-z\\d]+)+'), '(?<=`)(?<name>--[a-z][a-z\\d-]+)'])
    each(prose, name, nameProblem);
  each(prose, `(?<=\`)(?<name>(?:${FOLDER})/[\\w./@-]+)(?=\`)`, ({ name }) =>
    existsSync(join(ROOT, name)) ? null : unknown('file', name, []),
  );
  return [...problems];
}

function unknown(kind: string, name: string, names: readonly string[]): string | null {
  const isKnown = name.endsWith('*')
    ? names.some((each) => each.startsWith(name.slice(0, -1)))
    : names.includes(name);
  return isKnown || ELSEWHERE.has(name) ? null : `there is no ${kind} ${name}`;
}

/** Claims, columns, labels, codes without their status, options: what is nowhere in the source is wrong. */
function nameProblem({ name }: Groups): string | null {
  const inCamelCase = name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return NAMES.has(inCamelCase) || NAMES.has(name) ? null : unknown('name', name, []);
}

function defaultProblem({ name, value = '' }: Groups): string | null {
  const known = DEFAULTS.get(name);
  if (known === undefined || states(value.replaceAll('`', ''), known)) return null;
  return `\`${name}\` stands with ${value}, and its default is ${known}`;
}

/** Whether a value with a unit is the default of the setting. A plain number is so too often by chance. */
function isDefault(value: string, name: string): boolean {
  const { kind = '', window = null } = readQuantity(value) ?? {};
  return (kind !== '' || window !== null) && states(value, DEFAULTS.get(name) ?? '');
}

function statusProblem({ name, status }: Groups): string | null {
  const [known] = Object.hasOwn(PROBLEMS, name) ? PROBLEMS[name as keyof typeof PROBLEMS] : [];
  if (known === undefined) return NAMES.has(name) ? null : unknown('code', name, []);
  return known === Number(status) ? null : `\`${name}\` stands with ${status}, and its status is ${known}`;
}

function limitProblem({ name, value = '', unit = '' }: Groups): string | null {
  const stated = readQuantity(value + unit);
  const product = (factors: string) =>
    factors
      .split(' * ')
      .map(power)
      .reduce((a, b) => a * b);
  const power = (text: string) =>
    text
      .split(' ** ')
      .map(Number)
      .reduce((a, b) => a ** b);
  const known = found(/^(packages\/\w+\/)?src\//, new RegExp(`(?<=\\bconst ${name} = )[^;]+`, 'g')).map(
    (text) => product(text.replaceAll('_', '')),
  );
  // A constant is in seconds or in milliseconds.
  const isSame = (each: number) =>
    each === stated?.amount || (stated?.kind === 'time' && each === stated.amount * 1000);
  if (known.some(isSame)) return null;
  return `${value + unit} is marked as ${name}, which is ${known.join(' or ') || 'nowhere in the source'}`;
}

/** `NAME=value` is what one would set. */
function exampleProblem({ name, value = '' }: Groups): string | null {
  if (!Object.hasOwn(FIELDS, name) || /^$|…|^[A-Z_]+$/.test(value)) return null;
  const { error } = FIELDS[name as keyof typeof FIELDS].schema.safeParse(value);
  return error ? `\`${name}=${value}\` is refused: it ${error.issues[0]?.message ?? ''}` : null;
}

function commandProblem({ name, kit }: Groups): string | null {
  const words = name
    .replaceAll(/\\\n|[[\]"']|…|\$@?|\|\S*/g, ' ')
    .trim()
    .split(/\s+/);
  try {
    const { positionals } = kit ? parseWords(words) : parseArguments(words);
    const [first = '', second = ''] = positionals;
    if (kit || first === '' || ACTIONS.includes(`${first} ${second}`)) return null;
    const isGroup = second !== '' && ACTIONS.some((each) => each.startsWith(`${first} `));
    return !isGroup && usageOf(first) !== USAGE
      ? null
      : unknown('command', `latchkey ${first} ${second}`, []);
  } catch (error) {
    const { message } = error as Error;
    return message.endsWith('argument missing') ? null : `latchkey ${words.join(' ')}: ${message}`;
  }
}
