// Assigns test files to suites. Files that no suite names are the core, which `npm test` runs.

/** By path below dist/test: a folder, or the beginning of a name. The first match decides. */
export const SUITES = {
  fault: ['fault/'],
  container: ['container/'],
  browser: ['e2e/cors-page', 'e2e/docs-page', 'load/report-page'],
  e2e: [
    'e2e/',
    'cli/',
    'http/audit',
    'http/auth/log-in-imported',
    'http/auth/revocations',
    'http/outages',
    'infra/crypto/imported-hashes',
    'infra/embedded/',
    'infra/postgres/migrate',
    'infra/tracing/',
    'load/load.',
    'load/own-service',
    'documents/commands',
    'documents/installing',
  ],
  deploy: ['deploy/', 'k8s/'],
  model: ['model/', 'proof/', 'simulation/', 'races/'],
  tools: ['boundaries', 'ci/', 'scripts/', 'support/leaks/', 'documents/asvs'],
  attack: ['attack/'],
  fuzz: ['fuzz/'],
};

/** Files of suites that run in the core too: one end-to-end test of the embedded default. */
const KEPT = ['e2e/embedded-default'];

/** The part of the core that runs in seconds. */
const QUICK = ['domain/', 'http/', 'infra/memory/'];

/** Files that take 5 s or more. `npm test` runs them; `--quick` and `--again` do not. */
const SLOW = [
  'http/auth/audiences',
  'http/auth/exchange',
  'http/auth/introspect',
  'http/auth/log-in-hashes',
  'http/auth/log-in-imported',
  'http/auth/log-in-limits',
  'http/auth/log-out',
  'http/auth/long-lived-settings',
  'http/auth/long-lived-tokens',
  'http/auth/overlap',
  'http/auth/password-reset',
  'http/auth/refresh',
  'http/auth/revoke',
  'http/auth/rights',
  'http/auth/rotation',
  'http/auth/sign-up',
  'http/auth/theft',
  'http/error-handler',
  'http/log',
  'http/openapi/document',
  'http/openapi/limits',
  'http/ops/metrics',
  'http/plugins/authenticate',
  'http/plugins/jwt-keys',
  'http/plugins/load-shedding',
  'http/plugins/rate-limit',
  'http/problem',
  'http/token-codec',
  'http/user/change-profile',
  'http/user/password',
  'http/user/tokens',
  'http/users/accounts',
  'http/users/deletion',
];

/** They break stores or build images, and run only on request. */
const APART = ['fault', 'container'];

/** The longest start first: started last, one of them would run alone at the end. */
const LONGEST = [
  ...[
    'fault/replicas',
    'fault/revocations',
    'fault/rolling',
    'fault/upgrade',
    'fault/alerts',
    'fault/postgres-failover',
  ],
  ...[
    'fuzz/fuzz',
    'attack/forged-tokens',
    'attack/guessing',
    'e2e/stores-away',
    'e2e/verifier-package',
    'e2e/postgres-access',
    'documents/commands',
    'cli/client',
    'deploy/alert-rules',
  ],
  ...['http/auth/revocations', 'load/load', 'http/outages', 'http/auth/introspect', 'http/auth/rotation'],
  ...['http/auth/log-in-limits', 'e2e/embedded-default', 'composition/durability'],
];

/** @returns {string} */
export function suiteOf(file) {
  const path = file.replace(/^dist\/test\//, '');
  const names = Object.keys(SUITES);
  if (KEPT.some((start) => path.startsWith(start))) return 'core';
  return names.find((name) => SUITES[name].some((start) => path.startsWith(start))) ?? 'core';
}

/**
 * @param suite a suite, `core`, `quick`, `again` or `all`. With names, the core includes the other suites of `--all`.
 * `again` is the core without its slow files, for a second version of Node.
 */
export function isIn(suite, file, hasNames) {
  const own = suiteOf(file);
  const path = file.replace(/^dist\/test\//, '');
  const isSlow = SLOW.some((name) => path === `${name}.test.js`);
  if (suite === 'quick') return !isSlow && own === 'core' && QUICK.some((start) => path.startsWith(start));
  if (suite === 'again') return !isSlow && own === 'core';
  if (suite === 'all' || (suite === 'core' && hasNames)) return !APART.includes(own);
  return own === suite;
}

/** Suites (`--SUITE`) and names in any order. Without a suite it is the core. */
export function readArguments(words) {
  const options = words.filter((word) => word.startsWith('--'));
  const suites = options.map((option) => option.slice(2));
  const known = ['quick', 'again', 'all', ...Object.keys(SUITES)];
  const unknown = suites.find((suite) => !known.includes(suite));
  if (unknown !== undefined) throw new Error(`no suite --${unknown}`);
  const filters = words.filter((word) => !options.includes(word));
  return { suites: suites.length === 0 ? ['core'] : suites, filters };
}

/** Files that load the machine for minutes, or in which an answer must come in time. They run alone, after the others. */
const ALONE = [
  'fault/documented-rollout',
  'fault/failover',
  'fault/overload',
  'fault/postgres-failover',
  'fault/redis/cluster',
  'fault/redis/sentinel',
];

export function needsMachine(file) {
  return suiteOf(file) === 'container' || ALONE.some((name) => file === `dist/test/${name}.test.js`);
}

/** A lower rank starts earlier. */
export function rank(file) {
  const found = LONGEST.findIndex((start) => file.startsWith(`dist/test/${start}.`));
  return found === -1 ? LONGEST.length : found;
}

/** In seconds. Longer suites repeat their steps, or wait for servers and clusters. */
export function timeoutOf(file) {
  return suiteOf(file) === 'core' ? 300 : 900;
}
