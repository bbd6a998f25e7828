// Assigns test files to suites. Files that no suite names are the core, which `npm test` runs.
import { readFileSync } from 'node:fs';

/**
 * By path below dist/test: a folder, or the beginning of a name. The first match decides. The laboratory is compiled
 * beside it.
 */
export const SUITES = {
  fault: ['fault/'],
  container: ['container/'],
  browser: [
    'client/tab',
    'client/vectors-page',
    'e2e/cors-page',
    'e2e/docs-page',
    'e2e/spa',
    'load/report-page',
  ],
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
  model: ['model/', 'proof/', 'races/'],
  tools: ['boundaries', 'ci/', 'scripts/', 'support/leaks/', 'documents/asvs'],
  attack: ['attack/'],
  fuzz: ['fuzz/'],
  lab: ['dist/lab/'],
};

/** Files of suites that run in the core too: one end-to-end test of the embedded default. */
const KEPT = ['e2e/embedded-default'];

/** The part of the core that runs in seconds. */
const QUICK = ['domain/', 'http/', 'infra/memory/'];

/** From how many seconds on a file counts as slow. */
export const SLOW = 5;

/** Seconds that each slow file took in the last complete run of CI, by its path below test/ (`ci-plan.mjs --record`). */
const DURATIONS = JSON.parse(readFileSync(new URL('../.ci/durations.json', import.meta.url), 'utf8'));

/** They break stores, build images, or test how we measure, and run only on request. */
const APART = ['fault', 'container', 'lab'];

/** @returns {string} */
export function suiteOf(file) {
  const path = file.replace(/^dist\/test\//, '');
  const names = Object.keys(SUITES);
  if (KEPT.some((start) => path.startsWith(start))) return 'core';
  return names.find((name) => SUITES[name].some((start) => path.startsWith(start))) ?? 'core';
}

/**
 * @param suite a suite, `core`, `quick`, `again` or `all`. With names, the core includes the other suites of `--all`.
 * `again` is the core without slow tests of operations, for a second version of Node. `quick` leaves them out too.
 */
export function isIn(suite, file, hasNames) {
  const own = suiteOf(file);
  const path = file.replace(/^dist\/test\//, '');
  const isSlow = path.startsWith('http/') && durationOf(file) > 0;
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

/** In seconds; 0 for files that took less than SLOW, and for new ones. */
export function durationOf(file) {
  return DURATIONS[file.replace(/^dist\/test\/|\.test\.js$/g, '')] ?? 0;
}

/** In seconds. Longer suites repeat their steps, or wait for servers and clusters. */
export function timeoutOf(file) {
  return suiteOf(file) === 'core' ? 300 : 900;
}
