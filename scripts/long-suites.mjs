// What each long suite is about, as paths or how paths begin. .ci/run runs a long suite only if one of them changed since
// the suite last passed (ci-plan.mjs, docs/adr/0044). The other suites run always.
import { createHash } from 'node:crypto';

/** A change in one of these can break every suite. */
const EVERYWHERE = ['.ci/run', 'scripts/long-suites.mjs', 'package.json', 'package-lock.json', 'tsconfig'];

const ROTATION = ['access-tokens', 'feed', 'sessions', 'tokens'].map((name) => `src/domain/${name}/`);
const STORES = ['src/infra/', 'prisma'];
const START = ['src/server.ts', 'src/composition/', 'src/config/', 'src/runtime/'];
const SUPPORT = ['test/support/', 'scripts/test'];

/** @type {Record<string, string[]>} */
export const LONG_SUITES = {
  newcomer: [...START, 'src/infra/embedded/', 'scripts/', 'prisma'],
  again: [...STORES, ...START, 'src/http/plugins/'],
  e2e: [
    ...['src/', 'prisma', 'packages/', 'examples/', 'docs/', 'README.md', ...SUPPORT],
    ...['deploy/caddy/', 'deploy/nginx/latchkey/'],
  ].concat(['cli/', 'documents/', 'e2e/', 'http/', 'infra/', 'load/'].map((name) => `test/${name}`)),
  browser: [
    ...['src/app.ts', 'src/http/', 'packages/client/', 'packages/load/', 'examples/spa/'],
    ...['test/client/', 'test/e2e/', 'test/load/', ...SUPPORT],
  ],
  deploy: [
    'charts/',
    'deploy/',
    'k8s/',
    'compose.yaml',
    'Dockerfile',
    'docs/',
    'packages/agent/src/configuration.ts',
    'test/deploy/',
    'test/k8s/',
    ...SUPPORT,
  ].concat(
    ['cli/', 'config/', 'http/auth/verify.ts', 'http/ops/', 'http/plugins/', 'infra/metrics/'].map(
      (name) => `src/${name}`,
    ),
  ),
  fuzz: ['src/app.ts', 'src/http/', 'test/fuzz/', ...SUPPORT],
  fault: [
    ...ROTATION,
    ...STORES,
    ...START,
    'deploy/',
    'docs/installing.md',
    'packages/verifier/src/',
    'test/fault/',
    'packages/load/src/exchange.ts',
    'packages/load/src/pace.ts',
    ...SUPPORT,
  ].concat(
    [
      'domain/limits/',
      'domain/passwords/',
      'doctor/',
      'http/auth/',
      'http/error-handler.ts',
      'http/ops/',
      'http/plugins/',
    ].map((name) => `src/${name}`),
  ),
  container: [
    ...[...START, 'Dockerfile', '.dockerignore', 'k8s/', 'prisma', 'src/cli'],
    ...['charts/', 'packages/', 'scripts/release', 'scripts/set-version.mjs'],
    ...['SECURITY.md', 'docs/installing.md', 'docs/operating.md', 'docs/releasing.md'],
    ...['test/container/', 'test/fault/harness/', ...SUPPORT],
  ],
  stryker: ['stryker.config.json', ...ROTATION, 'test/domain/sessions/', 'test/domain/tokens/'],
  bench: [...ROTATION, ...STORES, ...START, 'src/http/auth/', 'lab/bench/'],
  load: [...ROTATION, ...STORES, ...START, 'test/load/', 'packages/load/'],
  scale: [...STORES, 'src/domain/sizing/', 'lab/scale/'],
  lab: ['lab/', 'src/domain/sessions/', 'test/support/'],
};

/**
 * A fingerprint of the files of each long suite, and of each file with planted mistakes (`mutations:FILE`).
 * @param {Map<string, string>} tree the hash of each file, by path
 * @param {{ file: string, source: string, tests: string[] }[]} mutations source: the path of the file
 * @returns {Record<string, string>} by suite
 */
export function fingerprints(tree, mutations) {
  const result = {};
  for (const [name, starts] of Object.entries(LONG_SUITES)) {
    const isOfSuite = (path) => [...EVERYWHERE, ...starts].some((start) => path.startsWith(start));
    result[name] = fingerprint([...tree].filter(([path]) => isOfSuite(path)));
  }
  for (const file of new Set(mutations.map((mutation) => mutation.file))) {
    const planted = mutations.filter((mutation) => mutation.file === file);
    const paths = planted.flatMap(({ source, tests }) => [
      source,
      ...tests.map((test) => `test/${test}.test.ts`),
    ]);
    result[`mutations:${file}`] = fingerprint([planted, ...paths.map((path) => tree.get(path))]);
  }
  return result;
}

/** The names in `now` that are new or differ in `proven`. */
export function changed(now, proven) {
  return Object.keys(now).filter((name) => now[name] !== proven[name]);
}

function fingerprint(value) {
  return createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 16);
}
