import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;

interface TestSuites {
  SUITES: Record<string, string[]>;
  suiteOf: (file: string) => string;
  readArguments: (words: string[]) => { suites: string[]; filters: string[] };
  needsMachine: (file: string) => boolean;
  isIn: (suite: string, file: string, hasNames: boolean) => boolean;
}

const path = join(ROOT, 'scripts/test-suites.mjs');
const { SUITES, suiteOf, isIn, needsMachine, readArguments } = (await import(path)) as TestSuites;

const files = ['test', 'lab'].flatMap((folder) =>
  readdirSync(join(ROOT, folder), { recursive: true })
    .map(String)
    .filter((name) => name.endsWith('.test.ts'))
    .map((name) => join('dist', folder, name.replace(/ts$/, 'js'))),
);

const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

test('each suite has files and a script, and CI runs it', (t) => {
  const ci = readFileSync(join(ROOT, '.ci/run'), 'utf8');
  for (const suite of Object.keys(SUITES)) {
    t.ok(
      files.some((file) => suiteOf(file) === suite),
      `${suite} has files`,
    );
    t.match(scripts[`test:${suite}`], `scripts/test.mjs --${suite}`);
    t.match(
      ci,
      new RegExp(
        `tests ${suite} npm run test:${suite}\\b|^queue=\\(.*--${suite}\\b|^for suite in .*\\b${suite}\\b`,
        'm',
      ),
    );
  }
  t.match(ci, /^ +npm test$/m, 'and the core');
  t.end();
});

test('arguments name suites and parts of paths', (t) => {
  t.strictSame(readArguments([]), { suites: ['core'], filters: [] });
  t.strictSame(readArguments(['http/a', 'cli']), { suites: ['core'], filters: ['http/a', 'cli'] });
  t.strictSame(readArguments(['--attack', '--fuzz', 'x']), { suites: ['attack', 'fuzz'], filters: ['x'] });
  t.throws(() => readArguments(['--attack', '--unknown']), /no suite --unknown/);
  t.end();
});

test('npm run test:all runs every file', (t) => {
  const all = scripts['test:all'] ?? '';
  const parts = [...all.matchAll(/npm run test:(\w+)/g)].map(([, suite = '']) => suite);
  t.match(all, 'scripts/test.mjs --all');
  for (const file of files) {
    const isRun = isIn('all', file, false) || parts.includes(suiteOf(file));
    if (!isRun) t.fail(`${file} runs`);
  }
  t.strictSame(parts, ['lab', 'fault', 'container']);
  t.end();
});

test('a second version of Node runs the core without its slow files', (t) => {
  const again = files.filter((file) => isIn('again', file, false));
  const core = files.filter((file) => isIn('core', file, false));
  const left = core.filter((file) => !again.includes(file));
  t.ok(again.length > 0);
  t.strictSame(
    again.filter((file) => !core.includes(file)),
    [],
  );
  t.ok(left.length > 0);
  // Drivers, streams and timers differ between versions.
  t.strictSame(
    left.filter((file) => !file.startsWith('dist/test/http/')),
    [],
  );
  t.match(readFileSync(join(ROOT, '.ci/run'), 'utf8'), /^long again tests tests npm test -- --again$/m);
  t.end();
});

test('what needs the whole machine runs by itself', (t) => {
  const apart = files.filter(needsMachine);
  t.ok(apart.includes('dist/test/fault/overload.test.js'));
  t.ok(files.filter((file) => suiteOf(file) === 'container').every(needsMachine));
  t.end();
});

test('the core holds units, contracts, HTTP and one end-to-end test, and no file of a suite', (t) => {
  const core = files.filter((file) => isIn('core', file, false));
  for (const start of [
    'domain/',
    'http/',
    'infra/redis/',
    'infra/postgres/',
    'verifier/',
    'e2e/embedded-default',
  ]) {
    t.ok(
      core.some((file) => file.startsWith(`dist/test/${start}`)),
      start,
    );
  }
  t.strictSame(
    core.filter((file) => suiteOf(file) !== 'core'),
    [],
  );
  t.end();
});
