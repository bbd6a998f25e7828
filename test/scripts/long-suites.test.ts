import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;

interface Mutation {
  file: string;
  source: string;
  tests: string[];
}
interface LongSuites {
  LONG_SUITES: Record<string, string[]>;
  fingerprints: (tree: Map<string, string>, mutations: Mutation[]) => Record<string, string>;
  changed: (now: Record<string, string>, proven: Record<string, string>) => string[];
}

const { LONG_SUITES, fingerprints, changed } = (await import(
  join(ROOT, 'scripts/long-suites.mjs')
)) as LongSuites;

const ROTATION = 'src/domain/sessions/rotation.ts';
const ROUTE = 'src/http/own-account/profile.ts';
const MUTATIONS = [
  { file: 'domain/sessions/rotation.ts', source: ROTATION, tests: ['model/rotation'] },
  { file: 'http/own-account/profile.ts', source: ROUTE, tests: ['http/own-account/profile'] },
];
const TREE = new Map(
  [ROTATION, ROUTE, 'package-lock.json', 'Dockerfile', 'k8s/base/deployment.yaml', 'docs/rotation.md']
    .concat(['test/model/rotation.test.ts', 'test/http/own-account/profile.test.ts', 'CHANGELOG.md'])
    .map((path) => [path, 'as it was']),
);

/** The suites to run after these paths changed. */
function after(...paths: string[]): string[] {
  const edited = new Map([...TREE, ...paths.map((path) => [path, 'edited'] as const)]);
  return changed(fingerprints(edited, MUTATIONS), fingerprints(TREE, MUTATIONS));
}

test('a change runs the suites that it can break', (t) => {
  const rotation = after(ROTATION);
  for (const suite of ['fault', 'e2e', 'stryker', 'bench', 'mutations:domain/sessions/rotation.ts'])
    t.ok(rotation.includes(suite), `the rotation: ${suite}`);
  t.notOk(rotation.includes('container'));
  t.notOk(rotation.includes('mutations:http/own-account/profile.ts'));

  t.strictSame(after(ROUTE).sort(), ['browser', 'e2e', 'fuzz', 'mutations:http/own-account/profile.ts']);
  t.strictSame(after('test/model/rotation.test.ts'), ['mutations:domain/sessions/rotation.ts']);
  t.strictSame(after('docs/rotation.md').sort(), ['deploy', 'e2e']);
  t.ok(after('k8s/base/deployment.yaml').includes('container'));
  t.ok(after('Dockerfile').includes('container'));
  t.strictSame(after('CHANGELOG.md'), []);
  t.end();
});

test('a new file, a removed one, and a new planted mistake count as a change', (t) => {
  const before = fingerprints(TREE, MUTATIONS);
  t.ok(after('src/http/own-account/new.ts').includes('fuzz'));
  const without = new Map([...TREE].filter(([path]) => path !== ROUTE));
  t.ok(changed(fingerprints(without, MUTATIONS), before).includes('fuzz'));
  const second = { ...MUTATIONS[1], name: 'another' } as Mutation;
  t.strictSame(changed(fingerprints(TREE, [...MUTATIONS, second]), before), [
    'mutations:http/own-account/profile.ts',
  ]);
  t.end();
});

test('all suites run without a record, and after a change of the packages or of the table', (t) => {
  const all = Object.keys(fingerprints(TREE, MUTATIONS));
  t.strictSame(changed(fingerprints(TREE, MUTATIONS), {}), all);
  for (const path of ['package-lock.json', '.ci/run', 'scripts/long-suites.mjs'])
    for (const suite of Object.keys(LONG_SUITES)) t.ok(after(path).includes(suite), `${path}: ${suite}`);
  t.end();
});

test('.ci/run names every long suite, and each path exists', (t) => {
  const ci = readFileSync(join(ROOT, '.ci/run'), 'utf8');
  for (const [suite, paths] of Object.entries(LONG_SUITES)) {
    t.match(ci, new RegExp(`^long ${suite} |is_planned ${suite};|^for suite in .*\\b${suite}\\b`, 'm'));
    for (const path of paths) {
      const exists = existsSync(join(ROOT, path)) || ['prisma', 'scripts/test', 'src/cli'].includes(path);
      t.ok(exists, `${suite}: ${path}`);
    }
  }
  t.end();
});
