// `npm run boundaries`: who may import what (ARCHITECTURE.md). It checks every import in src/ and packages/*/src/ against
// the table below, read as text: one formatter writes them all in one form, and an import in another form is a problem.
// And each file of test/support serves several tests.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const PACKAGES = ['agent', 'client', 'load', 'verifier'].map((name) => `packages/${name}`);

// Targets are written `src/…` for a file, `node:…` for Node's own modules, and `npm:…` for packages.
const packages = (...names) => `^npm:(${names.join('|')})(/|$)`;
const builtins = (...names) => `^node:(${names.join('|')})$`;

const DOMAIN = '^src/domain/';
/** Ports of metrics and traces, for every layer but the domain, which reports in words of its own. */
const TELEMETRY = '^src/telemetry/';
const GENERATED = '^src/generated/prisma/';
const OPEN_TELEMETRY = '^src/infra/tracing/open-telemetry\\.ts$';
/** Everything of Node but what starts programs, loads code by name, or is the process itself. */
const NODE =
  '^node:(buffer|crypto|dns|events|fs|http|https|net|os|path|perf_hooks|querystring|readline|stream|string_decoder|timers|tls|url|util|zlib)(/|$)';

/**
 * `may` is everything a layer imports besides its own files; `mayAsType` only with `import type`, which leaves nothing
 * behind at run time.
 */
export const LAYERS = [
  // No clock, randomness, network or file of its own: what it needs arrives through its ports.
  { name: 'domain', files: DOMAIN, may: [builtins('crypto', 'url'), packages('typebox')] },

  { name: 'telemetry', files: TELEMETRY, may: ['^src/domain/metrics/'], mayAsType: [DOMAIN] },
  { name: 'infra-audit', files: '^src/infra/audit/', may: [DOMAIN, NODE] },
  {
    name: 'infra-crypto',
    files: '^src/infra/crypto/',
    may: [
      DOMAIN,
      NODE,
      '^src/infra/pause\\.ts$',
      builtins('worker_threads'),
      packages('scrypt-kdf', 'hash-wasm'),
    ],
  },
  {
    name: 'infra-embedded',
    files: '^src/infra/embedded/',
    may: [
      NODE,
      '^node:(child_process|module|readline)(/|$)',
      packages('pg'),
      '^src/infra/postgres/(migration-files|session-settings)\\.ts$',
    ],
  },
  { name: 'infra-issuers', files: '^src/infra/issuers/', may: [DOMAIN, TELEMETRY, NODE, packages('jose')] },
  { name: 'infra-tls', files: '^src/infra/tls/', may: [NODE] },
  { name: 'infra-tick', files: '^src/infra/(tick|pause)\\.ts$', may: [] },
  { name: 'infra-metrics', files: '^src/infra/metrics/', may: [DOMAIN, TELEMETRY, NODE] },
  { name: 'infra-memory', files: '^src/infra/memory/', may: [DOMAIN, TELEMETRY, '^src/infra/pause\\.ts$'] },
  {
    name: 'infra-postgres',
    files: '^src/infra/postgres/',
    may: [
      DOMAIN,
      TELEMETRY,
      GENERATED,
      NODE,
      '^src/infra/tls/',
      '^src/infra/tick\\.ts$',
      builtins('async_hooks'),
      packages('pg', '@prisma/adapter-pg', '@prisma/client'),
    ],
  },
  {
    name: 'infra-tracing',
    files: '^src/infra/tracing/',
    may: [DOMAIN, TELEMETRY, builtins('async_hooks'), packages('@opentelemetry/[^/]+')],
  },
  {
    name: 'infra-redis',
    files: '^src/infra/redis/',
    may: [DOMAIN, TELEMETRY, NODE, '^src/infra/tls/', '^src/infra/(tick|pause)\\.ts$', packages('ioredis')],
  },
  {
    name: 'infra-webauthn',
    files: '^src/infra/webauthn/',
    may: [DOMAIN, builtins('crypto'), packages('@simplewebauthn/server')],
  },
  {
    // What replicas agree on: settings and keys in PostgreSQL, and the mark in both stores.
    name: 'infra-installation',
    files: '^src/infra/installation/',
    may: [
      DOMAIN,
      GENERATED,
      NODE,
      '^src/infra/postgres/(errors|key-registry)\\.ts$',
      '^src/infra/redis/connection/',
    ],
    mayAsType: [packages('ioredis', 'fastify')],
  },

  {
    // What other services install: nothing of ours stands behind it, and nothing of ours imports it. No type of a
    // framework either, because a service has only one of them. Web globals only: it also
    // runs outside Node.
    name: 'verifier',
    files: '^packages/verifier/src/(?!testing/)',
    may: [packages('jose')],
    mayAsType: [builtins('http')],
  },
  {
    // What services test themselves with, in Node. The verifier imports none of it, so no service ships it.
    name: 'verifier-testing',
    files: '^packages/verifier/src/testing/',
    may: ['^packages/verifier/src/', NODE, packages('jose')],
  },
  {
    // A process of its own beside another service, which installs only the verifier with it.
    name: 'agent',
    files: '^packages/agent/src/',
    may: [NODE, packages('@latchkey/verifier')],
  },
  // In browsers, React Native and Node: web globals only, and no package.
  { name: 'client', files: '^packages/client/src/', may: [] },
  // It knows the service by its published contract alone.
  { name: 'load', files: '^packages/load/src/', may: [NODE, packages('undici')] },

  {
    name: 'http',
    files: '^src/http/',
    may: [
      DOMAIN,
      TELEMETRY,
      NODE,
      packages('fastify', 'fastify-plugin', '@fastify/[^/]+', 'typebox', 'bowser'),
    ],
    mayAsType: ['^src/config/'],
  },
  {
    name: 'app',
    files: '^src/app\\.ts$',
    may: ['^src/http/', packages('fastify')],
    mayAsType: [DOMAIN, TELEMETRY, '^src/config/', '^src/composition/use-cases\\.ts$'],
  },

  {
    name: 'config',
    files: '^src/config/',
    may: [
      packages('zod'),
      NODE,
      '^src/domain/(audience|errors|identifiers|rights|roles)\\.ts$',
      // A seed follows the rules of accounts and services.
      '^src/domain/(services/(registered-service|secret)|users/(account-fields|create-account|new-names|taken))\\.ts$',
      '^src/infra/crypto/(common-passwords|factor-keys|key-files|keys|scrypt-hasher)\\.ts$',
      '^src/infra/(postgres/connection|redis/connection/redis-url|tls/certificates)\\.ts$',
      '^src/runtime/memory\\.ts$',
    ],
    mayAsType: [TELEMETRY, DOMAIN],
  },

  {
    // Wiring only. The embedded database is loaded by one file, so that the production image can leave it out.
    name: 'composition',
    files: '^src/composition/(?!open-database\\.ts$)',
    may: [DOMAIN, TELEMETRY, '^src/infra/(?!embedded/)', '^src/runtime/', builtins('crypto')],
    mayAsType: ['^src/config/', '^src/http/', GENERATED, packages('fastify')],
  },
  {
    name: 'open-database',
    files: '^src/composition/open-database\\.ts$',
    may: ['^src/infra/(embedded|postgres)/', '^src/runtime/start-error\\.ts$'],
    mayAsType: ['^src/config/', packages('pino')],
  },
  {
    name: 'runtime',
    files: '^src/runtime/',
    may: [
      builtins('fs', 'os', 'v8'),
      packages('pino'),
      '^src/domain/(errors|standing)\\.ts$',
      '^src/infra/postgres/(cause|schema-version|settings-error)\\.ts$',
    ],
    mayAsType: [DOMAIN, TELEMETRY, '^src/http/', '^src/infra/postgres/', packages('fastify')],
  },

  {
    name: 'server',
    files: '^src/server\\.ts$',
    may: [
      '^src/(app|composition/compose|composition/open-database|config/config|config/transport)\\.ts$',
      '^src/runtime/',
      '^src/infra/tracing/open-tracing\\.ts$',
      NODE,
    ],
    mayAsType: [packages('fastify', 'pino')],
  },
  {
    // What the infrastructure says of itself, and what is to be thought of it.
    name: 'doctor',
    files: '^src/doctor/',
    may: [
      '^src/runtime/with-timeout\\.ts$',
      '^src/config/',
      '^src/domain/(access-tokens/|standing\\.ts$)',
      '^src/infra/crypto/(factor-keys|generated-keys|key-files|keys)\\.ts$',
      '^src/infra/installation/(binding|facts|marks|record|redis-marks|seed-mark)\\.ts$',
      '^src/infra/issuers/(fetch-jwks|jwks)\\.ts$',
      '^src/infra/postgres/(cause|client|factor-keys|passkey-store|service-store|inspect|key-records|key-registry|last-purge|migration-error|schema-version|settings-error)\\.ts$',
      '^src/infra/redis/(connection/(connections|errors|open-redis)|inspect)\\.ts$',
      NODE,
    ],
  },
  {
    // The operators' commands: each a few lines over the same parts that serve.
    name: 'cli',
    files: '^src/cli(/|\\.ts$)',
    may: [
      '^src/doctor/',
      '^src/config/',
      '^src/infra/audit/',
      '^src/infra/crypto/(factor-keys|generated-keys|key-files|keys|name-hash|new-stored-hash|scrypt-hasher)\\.ts$',
      '^src/infra/embedded/(embedded-database-error|postgres)\\.ts$',
      '^src/infra/installation/(facts|marks|record|redis-marks)\\.ts$',
      '^src/infra/issuers/(issuer-url|jwks)\\.ts$',
      '^src/infra/pause\\.ts$',
      '^src/infra/postgres/(account-store|client|factor-changes|factor-keys|factor-store|failures|feed-readers|service-store|known-devices|inspect-token|last-purge|migrate|migration-error|names|one-time-tokens|password-resets|purge|recover|settings-error|token-store|user-imports|wanted-mails)\\.ts$',
      '^src/infra/redis/(connection/(connections|errors|open-redis)|heartbeat|inspect|inspect-token|recover|revocation-feed|token-states)\\.ts$',
      // It checks a token as the service does.
      '^src/http/token-codec\\.ts$',
      '^src/runtime/',
      DOMAIN,
      NODE,
      builtins('v8'),
    ],
    mayAsType: [GENERATED],
  },
];

/**
 * Who reads no clock of its own. Two clocks for one quantity come apart when a machine sleeps or its clock is set, and
 * only a clock that arrives as a port shows that to a test. Stores have the time from their server, so they read no wall
 * clock, but may measure how long an answer took. A command that only imports is no store.
 */
const CLOCKS = [
  {
    files: /^src\/(domain|composition|infra\/memory)\//,
    refused: /\bDate\.now\b|\bnew Date\(\)|\bperformance\b/g,
  },
  {
    files: /^src\/infra\/(redis|postgres\/(?!user-imports))/,
    refused: /\bDate\.now\b|\bnew Date\(\)|\btimeOrigin\b/g,
  },
];

/**
 * Who reads variables of the environment as they are. Everybody else gets them from these files, without the
 * white space and the byte order mark around them: with a newline behind it, NODE_ENV would not be that of
 * production.
 */
const ENVIRONMENT = {
  readers: /^src\/config\/environment\.ts$|^packages\/\w+\/src\/environment\.ts$/,
  /** They hand it on. */
  programs: /^packages\/\w+\/src\/main\.ts$/,
  whole: /\bprocess\.env\b/g,
  variable: /\benv\??[.[]|\} = env\b|\bprocess\.env\??[.[]/g,
};

/** A file in src/ with one importer and at most this many lines belongs into that importer. */
const SPLINTER = 60;

/** The files that may be as small, and why. */
const SEPARATE = [
  // Read one at a time.
  '^src/(cli|doctor)/',
  '^src/http/(accounts|auth|own-account|well-known)/',
  // Implementations of ports.
  '^src/infra/(crypto/(common-passwords|login-token|passkey-challenge)|(memory|redis)/(attempt-slots|renewal-leases)|redis/memory-use)\\.ts$',
  '^src/infra/postgres/(feed-record|state-writer)\\.ts$',
  // They keep an import away from others: the embedded database, OpenTelemetry.
  '^src/(composition/open-database|infra/tracing/open-tracing)\\.ts$',
  // The alerts are made from it too (scripts/budget-rules.mjs).
  '^src/http/openapi/operation-classes\\.ts$',
  // Parts that compose.ts opens.
  '^src/composition/(mails|revocation-feed)\\.ts$',
  // They know nothing of their importer.
  '^src/(http/(one-write-response|plugins/standing)|runtime/event-loop-lag)\\.ts$',
];

const STATEMENT =
  /^(?:import|export)( type)? (?:\* as \w+|\*|\w+|(?:\w+, )?\{[^}]*\}) from '([^']+)'(?: with \{[^}]*\})?;$|^import '([^']+)';$/gm;
const DYNAMIC = /(typeof )?\bimport\(\s*'([^']+)',?\s*\)/g;
/** Whatever could be an import in a form that the two above do not read. */
const SUSPECT = /^import\b(?!\(|\.meta)| from ['"]|\bimport\(|\brequire\(/gm;

/**
 * @param {Map<string, string>} sources the text of each file, by its path from the root
 * @param {(path: string) => boolean} exists whether a file that is not among them is there
 * @returns {{ imports: number, problems: string[] }} a problem is `rule: file -> target`
 */
export function check(sources, exists = (path) => existsSync(join(root, path))) {
  const edges = [...sources].flatMap(([from, text]) => importsOf(from, text));
  const problems = edges.flatMap((edge) => problemsOf(edge, sources, exists));
  const graph = edges.filter(({ to }) => sources.has(to));
  problems.push(...circles('no-circular', graph));
  const folders = graph
    .filter(({ from, to }) => [from, to].every((path) => path.startsWith('src/domain/')))
    .map(({ from, to }) => ({ from: dirname(from), to: dirname(to) }))
    .filter(({ from, to }) => from !== to);
  problems.push(...circles('no-circular-folders', folders), ...splinters(sources, graph));
  problems.push(...[...sources].flatMap(([path, text]) => clocksOf(path, text)));
  problems.push(...[...sources].flatMap(([path, text]) => variablesOf(path, text)));
  problems.push(...notChecked([...sources.keys()], edges.length));
  return { imports: edges.length, problems };
}

function withoutComments(text) {
  return text.replace(/^ *(\/\/|\/?\*).*$/gm, '');
}

function clocksOf(path, text) {
  return CLOCKS.filter(({ files }) => files.test(path)).flatMap(({ refused }) =>
    (withoutComments(text).match(refused) ?? []).map((clock) => `clock: ${path} reads ${clock}`),
  );
}

function variablesOf(path, text) {
  const { readers, programs, whole, variable } = ENVIRONMENT;
  if (readers.test(path)) return [];
  const refused = programs.test(path) ? [variable] : [whole, variable];
  return refused
    .flatMap((pattern) => withoutComments(text).match(pattern) ?? [])
    .map((read) => `environment: ${path} reads ${read}`);
}

function importsOf(from, text) {
  const code = withoutComments(text);
  const found = [
    ...[...code.matchAll(STATEMENT)].map(([, type, named, bare]) => ({
      name: named ?? bare,
      isType: type !== undefined,
      isDynamic: false,
    })),
    ...[...code.matchAll(DYNAMIC)].map(([, type, name]) => ({
      name,
      isType: type !== undefined,
      isDynamic: true,
    })),
  ].map(({ name, ...how }) => ({ from, to: targetOf(from, name), ...how }));
  const read = code.replace(STATEMENT, '').replace(DYNAMIC, '');
  const unread = read.match(SUSPECT) ?? [];
  return [...found, ...unread.map(() => ({ from, to: 'unreadable', isType: false, isDynamic: false }))];
}

function targetOf(from, name) {
  if (name.startsWith('.')) return normalize(join(dirname(from), name));
  if (name.startsWith('node:')) return name;
  return builtinModules.includes(name) ? `node:${name}` : `npm:${name}`;
}

function problemsOf({ from, to, isType, isDynamic }, sources, exists) {
  const named = (rule) => `${rule}: ${from} -> ${to}`;
  if (to === 'unreadable')
    return [`not checked: ${from} imports something in a form that the formatter does not write`];
  const problems = [];
  const isFile = !/^(node|npm):/.test(to);
  if (isFile && !sources.has(to) && !new RegExp(GENERATED).test(to) && !exists(to))
    problems.push(named('resolvable'));
  const matches = (patterns) => patterns.some((pattern) => new RegExp(pattern).test(to));
  for (const { name, files, may, mayAsType = [] } of LAYERS) {
    if (!new RegExp(files).test(from) || matches([files, ...may])) continue;
    if (!matches(mayAsType)) problems.push(named(`${name}-imports`));
    else if (!isType) problems.push(named(`${name}-imports-as-type-only`));
  }
  // An operator who asks for no spans pays for none.
  const isLoadedAtStart = from.startsWith('src/') && !isType && !isDynamic;
  const isTracing = matches([packages('@opentelemetry/[^/]+'), OPEN_TELEMETRY]);
  if (isLoadedAtStart && isTracing && !new RegExp(OPEN_TELEMETRY).test(from))
    problems.push(named('opentelemetry-when-asked-for'));
  // The words that all of the domain uses.
  if (/^src\/domain\/[^/]+\.ts$/.test(from) && /^src\/domain\/[^/]+\//.test(to))
    problems.push(named('domain-ground-floor'));
  // Neither the production image nor a service with one of our packages installs them.
  if (to.startsWith('npm:') && !isType && !dependenciesOf(from).includes(packageOf(to)))
    problems.push(named('no-dev-dependencies'));
  return problems;
}

function packageOf(target) {
  return /^npm:((?:@[^/]+\/)?[^/]+)/.exec(target)?.[1];
}

const manifests = new Map();

/** What is installed where the file runs. */
function dependenciesOf(file) {
  const folder = PACKAGES.find((name) => file.startsWith(`${name}/`)) ?? '';
  if (!manifests.has(folder)) {
    const read = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'));
    const lists = ['dependencies', 'optionalDependencies', 'peerDependencies'];
    manifests.set(
      folder,
      lists.flatMap((name) => Object.keys(read[name] ?? {})),
    );
  }
  return manifests.get(folder);
}

/** One problem for each import that closes a circle. */
function circles(rule, edges) {
  const next = new Map();
  for (const { from, to } of edges) next.set(from, (next.get(from) ?? new Set()).add(to));
  const problems = [];
  const finished = new Set();
  const path = [];
  const visit = (node) => {
    if (finished.has(node)) return;
    const start = path.indexOf(node);
    if (start !== -1) {
      problems.push(`${rule}: ${[...path.slice(start), node].join(' -> ')}`);
      return;
    }
    path.push(node);
    for (const target of next.get(node) ?? []) visit(target);
    path.pop();
    finished.add(node);
  };
  for (const node of next.keys()) visit(node);
  return problems;
}

/** Small files whose only importer should hold them. */
function splinters(sources, edges) {
  const isSmall = (path) => sources.get(path).split('\n').length - 1 <= SPLINTER;
  return [...sources.keys()]
    .filter((path) => path.startsWith('src/') && isSmall(path))
    .filter((path) => !SEPARATE.some((pattern) => new RegExp(pattern).test(path)))
    .map((path) => ({
      path,
      importers: new Set(edges.filter(({ to }) => to === path).map(({ from }) => from)),
    }))
    .filter(({ importers }) => importers.size === 1)
    .map(({ path, importers }) => `splinter: ${path} -> ${[...importers][0]}`);
}

/** Every file has a layer, every layer has files, and files import each other. */
function notChecked(files, imports) {
  const isIn = (file, { files: pattern }) => new RegExp(pattern).test(file);
  return [
    ...files
      .filter((file) => !LAYERS.some((layer) => isIn(file, layer)))
      .map((file) => `not checked: ${file} belongs to no layer`),
    ...LAYERS.filter((layer) => !files.some((file) => isIn(file, layer))).map(
      ({ name }) => `not checked: the layer ${name} has no file`,
    ),
    ...(imports < files.length ? [`not checked: ${imports} imports in ${files.length} files`] : []),
  ];
}

const SUPPORT = 'test/support/';

/**
 * Helpers in test/support that serve one test or script, beside which they belong. A helper may be imported, started as a
 * program, or serve through other helpers.
 * @param {Map<string, string>} tests the text of each file, by its path from the root
 * @returns {string[]}
 */
export function lonelyHelpers(tests) {
  const readers = new Map();
  for (const [path, text] of tests)
    for (const helper of helpersIn(path, text))
      readers.set(helper, (readers.get(helper) ?? new Set()).add(path));
  const isTest = (path) => path.endsWith('.test.ts');
  const servedBy = (path, seen) =>
    [...(readers.get(path) ?? [])].flatMap((reader) => {
      if (seen.has(reader)) return [];
      seen.add(reader);
      return isTest(reader) || !readers.has(reader) ? [reader] : servedBy(reader, seen);
    });
  return [...tests.keys()]
    .filter((path) => path.startsWith(SUPPORT) && !isTest(path))
    .map((path) => ({ path, served: servedBy(path, new Set([path])) }))
    .filter(({ path, served: [one, ...more] }) => more.length === 0 && dirname(one ?? '') !== dirname(path))
    .map(({ path, served: [one = 'nobody'] }) => `helper: ${path} -> ${one}`);
}

/** The files that a text names, as `'./name.ts'`, or as the `.js` that is started. */
function helpersIn(path, text) {
  return [...text.matchAll(/'([^'\s]+)\.([jt]s|py)'/g)].map(([, name, type]) => {
    const target = normalize(join(dirname(path), name));
    return `${target.slice(Math.max(0, target.indexOf(SUPPORT)))}.${type === 'js' ? 'ts' : type}`;
  });
}

/** @returns {Map<string, string>} the project's own files */
export function readSources() {
  return read(['src', ...PACKAGES.map((folder) => `${folder}/src`)], /\.ts$/);
}

/** @returns {Map<string, string>} tests, and whatever else may use what serves them */
export function readTests() {
  return read(['test', 'lab', 'scripts', ...PACKAGES.map((folder) => `${folder}/test`)], /\.(ts|mjs|py)$/);
}

function read(folders, wanted) {
  const files = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((name) => join(folder, name)),
  );
  const isOurs = (path) => wanted.test(path) && !/^src\/generated\/|node_modules\//.test(path);
  return new Map(files.filter(isOurs).map((path) => [path, readFileSync(join(root, path), 'utf8')]));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const sources = readSources();
  const { imports, problems } = check(sources);
  problems.push(...lonelyHelpers(readTests()));
  for (const problem of problems) process.stderr.write(`${problem}\n`);
  process.stdout.write(
    `boundaries: ${sources.size} modules, ${imports} imports, ${problems.length} problems\n`,
  );
  if (problems.length > 0) process.exitCode = 1;
}
