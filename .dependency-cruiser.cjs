// Who may import what (ARCHITECTURE.md). `npm run boundaries` holds every file in src/ against this table.
// `may` is everything a layer imports besides its own files; `mayAsType` only with `import type`, which leaves
// nothing behind at run time.

const packages = (...names) => `(^|/)node_modules/(${names.join('|').replaceAll('/', '\\/')})/`;
const builtins = (...names) => `^(${names.join('|')})$`;

const DOMAIN = '^src/domain/';
const GENERATED = '^src/generated/prisma/';
/** Everything of Node but what starts programs or loads code by name. */
const NODE =
  '^(crypto|dns|events|fs|http|https|net|os|path|perf_hooks|querystring|stream|string_decoder|timers|tls|url|util|zlib)(/|$)';

const LAYERS = [
  // No clock, randomness, network or file of its own: what it needs arrives through its ports.
  { name: 'domain', files: DOMAIN, may: [builtins('crypto')] },

  {
    name: 'infra-crypto',
    files: '^src/infra/crypto/',
    may: [DOMAIN, NODE, packages('scrypt-kdf', '@zxcvbn-ts/language-common')],
  },
  {
    name: 'infra-embedded',
    files: '^src/infra/embedded/',
    may: [
      NODE,
      '^(child_process|module|readline)(/|$)',
      packages('pg'),
      '^src/infra/postgres/migration-files\\.ts$',
    ],
  },
  { name: 'infra-metrics', files: '^src/infra/metrics/', may: [DOMAIN, NODE] },
  { name: 'infra-memory', files: '^src/infra/memory/', may: [DOMAIN] },
  {
    name: 'infra-postgres',
    files: '^src/infra/postgres/',
    may: [
      DOMAIN,
      GENERATED,
      NODE,
      builtins('async_hooks', 'module'),
      packages(
        'pg',
        'pg-connection-string',
        '@prisma/adapter-pg',
        '@prisma/driver-adapter-utils',
        '@prisma/client',
      ),
    ],
    // The engine itself is loaded by a path that is only known at run time.
    mayAsType: [packages('@prisma/schema-engine-wasm')],
  },
  {
    name: 'infra-tracing',
    files: '^src/infra/tracing/',
    may: [DOMAIN, builtins('async_hooks'), packages('@opentelemetry/[^/]+')],
  },
  { name: 'infra-redis', files: '^src/infra/redis/', may: [DOMAIN, NODE, packages('ioredis')] },

  {
    // What other services import: nothing of ours stands behind it, and nothing of ours imports it.
    name: 'verifier',
    files: '^src/verifier/',
    may: [builtins('timers/promises'), packages('jose')],
    mayAsType: [builtins('http'), packages('fastify')],
  },

  {
    name: 'http',
    files: '^src/http/',
    may: [DOMAIN, NODE, packages('fastify', 'fastify-plugin', '@fastify/[^/]+', 'typebox', 'bowser')],
  },
  { name: 'app', files: '^src/app\\.ts$', may: ['^src/http/', packages('fastify')], mayAsType: [DOMAIN] },

  {
    name: 'config-fields',
    files: '^src/config-fields\\.ts$',
    may: [NODE, packages('zod'), '^src/config-tracing\\.ts$'],
  },
  { name: 'config-tracing', files: '^src/config-tracing\\.ts$', may: [packages('zod')] },
  {
    name: 'config-redis',
    files: '^src/config-redis\\.ts$',
    may: [],
    mayAsType: ['^src/config-fields\\.ts$'],
  },
  {
    name: 'config',
    files: '^src/config\\.ts$',
    may: [
      '^src/config-(fields|redis|tracing)\\.ts$',
      NODE,
      '^src/infra/crypto/(key-files|keys|scrypt-hasher)\\.ts$',
    ],
  },

  {
    name: 'compose',
    files: '^src/compose(-clients|-durability|-feed|-hashing|-keys|-services|-states)?\\.ts$',
    may: [
      DOMAIN,
      '^src/infra/(?!embedded/)',
      '^src/(background|event-loop-lag|readiness|start-error|system-clock|within)\\.ts$',
    ],
    mayAsType: ['^src/(app|config)\\.ts$', '^src/http/', GENERATED, packages('fastify')],
  },
  { name: 'event-loop-lag', files: '^src/event-loop-lag\\.ts$', may: [], mayAsType: [DOMAIN] },
  { name: 'system-clock', files: '^src/system-clock\\.ts$', may: [], mayAsType: [DOMAIN] },
  { name: 'within', files: '^src/within\\.ts$', may: [] },
  {
    name: 'background',
    files: '^src/background\\.ts$',
    may: [],
    mayAsType: [DOMAIN, packages('fastify')],
  },
  {
    name: 'readiness',
    files: '^src/readiness\\.ts$',
    may: ['^src/infra/(?!embedded/)', '^src/within\\.ts$'],
    mayAsType: [DOMAIN, '^src/http/'],
  },
  {
    name: 'embedded',
    files: '^src/embedded\\.ts$',
    may: ['^src/infra/(embedded|postgres)/', '^src/start-error\\.ts$'],
    mayAsType: ['^src/config\\.ts$', packages('pino')],
  },
  { name: 'logger', files: '^src/logger\\.ts$', may: [packages('pino')], mayAsType: [DOMAIN] },
  { name: 'start-error', files: '^src/start-error\\.ts$', may: [] },

  {
    name: 'server',
    files: '^src/server\\.ts$',
    may: [
      '^src/(app|compose|config|embedded|logger|start-error)\\.ts$',
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
      '^src/(compose-states|config|config-fields)\\.ts$',
      '^src/domain/access-tokens/',
      '^src/infra/crypto/(key-files|keys)\\.ts$',
      '^src/infra/postgres/(client|inspect|key-records|migration-error|schema-version)\\.ts$',
      '^src/infra/redis/(connections|inspect)\\.ts$',
      NODE,
    ],
  },
  {
    // The operators' commands: each a few lines over the same parts that serve.
    name: 'cli',
    files: '^src/cli(/|\\.ts$)',
    may: [
      '^src/doctor/',
      '^src/(compose-states|config|logger|start-error)\\.ts$',
      '^src/infra/crypto/(generated-keys|key-files|keys)\\.ts$',
      '^src/infra/postgres/(client|client-store|migrate|migration-error|purge|recover|token-store|user-status)\\.ts$',
      '^src/infra/redis/(connections|errors|keys|recover)\\.ts$',
      '^src/(system-clock|within)\\.ts$',
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
      // Whoever asks for no spans pays for none.
      name: 'opentelemetry-when-asked-for',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/infra/tracing/open-telemetry\\.ts$' },
      to: {
        path: [packages('@opentelemetry/[^/]+'), '^src/infra/tracing/open-telemetry\\.ts$'],
        dynamic: false,
        dependencyTypesNot: ['type-only'],
      },
    },
    { name: 'no-circular', severity: 'error', from: { path: '^src/' }, to: { circular: true } },
    { name: 'resolvable', severity: 'error', from: { path: '^src/' }, to: { couldNotResolve: true } },
    {
      // The production image installs neither.
      name: 'no-dev-dependencies',
      severity: 'error',
      from: { path: '^src/' },
      to: {
        dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'],
        dependencyTypesNot: ['type-only'],
      },
    },
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    doNotFollow: { path: ['node_modules', '^src/generated/'] },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'node', 'default', 'types'],
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json', '.d.ts'],
    },
  },
};
