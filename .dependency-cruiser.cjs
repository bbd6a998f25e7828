// Who may import what (ARCHITECTURE.md). `npm run boundaries` holds every source file against this table.
// `may` is everything a layer imports besides its own files; `mayAsType` only with `import type`, which leaves
// nothing behind at run time.

const packages = (...names) => `(^|/)node_modules/(${names.join('|').replaceAll('/', '\\/')})/`;
const builtins = (...names) => `^(${names.join('|')})$`;

const SOURCES = '^(src|packages/[^/]+/src)/';
const DOMAIN = '^src/domain/';
/** Ports of metrics and traces, for every layer but the domain, which reports in words of its own. */
const TELEMETRY = '^src/telemetry/';
const GENERATED = '^src/generated/prisma/';
/** As services install it. */
const VERIFIER = '(^|/)packages/verifier/dist/';
/** Everything of Node but what starts programs or loads code by name. */
const NODE =
  '^(buffer|crypto|dns|events|fs|http|https|net|os|path|perf_hooks|querystring|readline|stream|string_decoder|timers|tls|url|util|zlib)(/|$)';

const LAYERS = [
  // No clock, randomness, network or file of its own: what it needs arrives through its ports.
  { name: 'domain', files: DOMAIN, may: [builtins('crypto', 'url'), packages('typebox')] },

  { name: 'telemetry', files: TELEMETRY, may: ['^src/domain/metrics/'], mayAsType: [DOMAIN] },
  { name: 'infra-audit', files: '^src/infra/audit/', may: [DOMAIN, NODE] },
  {
    name: 'infra-crypto',
    files: '^src/infra/crypto/',
    may: [DOMAIN, NODE, builtins('worker_threads'), packages('scrypt-kdf', 'hash-wasm')],
  },
  {
    name: 'infra-embedded',
    files: '^src/infra/embedded/',
    may: [
      NODE,
      '^(child_process|module|readline)(/|$)',
      packages('pg'),
      '^src/infra/postgres/(migration-files|session-settings)\\.ts$',
    ],
  },
  { name: 'infra-issuers', files: '^src/infra/issuers/', may: [DOMAIN, TELEMETRY, NODE, packages('jose')] },
  { name: 'infra-tls', files: '^src/infra/tls/', may: [NODE] },
  { name: 'infra-metrics', files: '^src/infra/metrics/', may: [DOMAIN, TELEMETRY, NODE] },
  { name: 'infra-memory', files: '^src/infra/memory/', may: [DOMAIN, TELEMETRY] },
  {
    name: 'infra-postgres',
    files: '^src/infra/postgres/',
    may: [
      DOMAIN,
      TELEMETRY,
      GENERATED,
      NODE,
      '^src/infra/tls/',
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
    may: [DOMAIN, TELEMETRY, NODE, '^src/infra/tls/', packages('ioredis')],
  },

  {
    // What other services install: nothing of ours stands behind it, and nothing of ours imports it. No type of a
    // framework either, because a service has only one of them. Web globals only: it also
    // runs outside Node.
    name: 'verifier',
    files: '^packages/verifier/src/',
    may: [packages('jose')],
    mayAsType: [builtins('http')],
  },
  {
    // A process of its own beside another service, which installs only the verifier with it.
    name: 'agent',
    files: '^packages/agent/src/',
    may: [NODE, VERIFIER],
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
  },
  {
    name: 'app',
    files: '^src/app\\.ts$',
    may: ['^src/http/', packages('fastify')],
    mayAsType: [DOMAIN, TELEMETRY],
  },

  {
    name: 'config',
    files: '^src/config/',
    may: [
      packages('zod'),
      NODE,
      '^src/domain/identifiers\\.ts$',
      '^src/infra/crypto/(key-files|keys|scrypt-hasher)\\.ts$',
      '^src/infra/(postgres/connection|redis/connection/redis-url|tls/certificates)\\.ts$',
      '^src/runtime/memory\\.ts$',
    ],
    mayAsType: [TELEMETRY],
  },

  {
    // Wiring only. The embedded database is loaded by one file, so that the production image can leave it out.
    name: 'composition',
    files: '^src/composition/(?!open-database\\.ts$)',
    may: [DOMAIN, TELEMETRY, '^src/infra/(?!embedded/)', '^src/runtime/', builtins('crypto')],
    mayAsType: ['^src/app\\.ts$', '^src/config/', '^src/http/', GENERATED, packages('fastify')],
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
      builtins('fs', 'os'),
      packages('pino'),
      '^src/domain/errors\\.ts$',
      '^src/infra/postgres/(cause|schema-version|session-settings)\\.ts$',
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
    mayAsType: ['^src/http/ops/health\\.ts$', packages('fastify', 'pino')],
  },
  {
    // What the infrastructure says of itself, and what is to be thought of it.
    name: 'doctor',
    files: '^src/doctor/',
    may: [
      '^src/runtime/with-timeout\\.ts$',
      '^src/config/',
      '^src/domain/access-tokens/',
      '^src/infra/crypto/(key-files|keys)\\.ts$',
      '^src/infra/issuers/(fetch-jwks|jwks)\\.ts$',
      '^src/infra/postgres/(cause|client|client-store|inspect|key-records|migration-error|schema-version|session-settings)\\.ts$',
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
      '^src/infra/crypto/(generated-keys|key-files|keys|name-hash|new-stored-hash|scrypt-hasher)\\.ts$',
      '^src/infra/embedded/(embedded-database-error|postgres)\\.ts$',
      '^src/infra/issuers/(issuer-url|jwks)\\.ts$',
      '^src/infra/postgres/(account-store|client|client-store|known-devices|inspect-token|migrate|migration-error|names|password-resets|purge|recover|session-settings|token-store|user-imports)\\.ts$',
      '^src/infra/redis/(connection/(connections|errors|open-redis)|heartbeat|inspect-token|recover|token-states)\\.ts$',
      // It checks a token as the service does.
      '^src/http/token-codec\\.ts$',
      '^src/runtime/',
      DOMAIN,
      NODE,
    ],
    mayAsType: [GENERATED],
  },
];

/** Two rules a layer: nothing outside its lists, and what is on the second list only as a type. */
function rulesOf({ name, files, may, mayAsType = [] }) {
  const always = [files, ...may];
  return [
    {
      name: `${name}-imports`,
      severity: 'error',
      from: { path: files },
      to: { pathNot: [...always, ...mayAsType] },
    },
    ...(mayAsType.length === 0
      ? []
      : [
          {
            name: `${name}-imports-as-type-only`,
            severity: 'error',
            from: { path: files },
            to: { path: mayAsType, pathNot: always, dependencyTypesNot: ['type-only'] },
          },
        ]),
  ];
}

module.exports = {
  layers: LAYERS,
  forbidden: [
    ...LAYERS.flatMap(rulesOf),
    {
      // An operator who asks for no spans pays for none.
      name: 'opentelemetry-when-asked-for',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/infra/tracing/open-telemetry\\.ts$' },
      to: {
        path: [packages('@opentelemetry/[^/]+'), '^src/infra/tracing/open-telemetry\\.ts$'],
        dynamic: false,
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      // The words that all of the domain uses.
      name: 'domain-ground-floor',
      severity: 'error',
      from: { path: '^src/domain/[^/]+\\.ts$' },
      to: { path: '^src/domain/[^/]+/' },
    },
    {
      // A folder of the domain can be read before those that stand on it.
      name: 'no-circular-folders',
      severity: 'error',
      scope: 'folder',
      from: { path: '^src/domain/' },
      to: { circular: true },
    },
    { name: 'no-circular', severity: 'error', from: { path: SOURCES }, to: { circular: true } },
    { name: 'resolvable', severity: 'error', from: { path: SOURCES }, to: { couldNotResolve: true } },
    {
      // Neither the production image nor a service with one of our packages installs them.
      name: 'no-dev-dependencies',
      severity: 'error',
      from: { path: SOURCES },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: ['node_modules', '^src/generated/', VERIFIER] },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json', '.d.ts'],
    },
  },
};
