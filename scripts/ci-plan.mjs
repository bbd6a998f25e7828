// Tells .ci/run which long suites to run: those whose files differ from .ci/proven.json, in which a green run records what
// it proved (docs/adr/0044).
//
//   node scripts/ci-plan.mjs [--full]    prints the long suites to run, a line each; with --full all of them
//   node scripts/ci-plan.mjs --record FILE   writes .ci/proven.json, after every suite of the plan passed, and
//                                        .ci/durations.json, from FILE (TEST_DURATIONS)
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { changed, fingerprints } from './long-suites.mjs';
import { luaMutants } from './lua-mutants.mjs';
import { mutations, pathOf } from './planted-mutations.mjs';
import { SLOW } from './test-suites.mjs';

const root = new URL('..', import.meta.url).pathname;
const record = join(root, '.ci/proven.json');
const durations = join(root, '.ci/durations.json');
const git = (...words) => execFileSync('git', words, { cwd: root, encoding: 'utf8' });

// With an edited file, the hashes of the commit are not those of the files that the suites see.
if (git('status', '--porcelain', '--untracked-files=no') !== '')
  throw new Error('.ci/run tests a commit, and this folder has changes that are not committed');

const tree = new Map(
  git('ls-tree', '-r', 'HEAD')
    .trim()
    .split('\n')
    .map((line) => line.split('\t'))
    .map(([entry, path]) => [path, entry.split(' ')[2]]),
);
const planted = [...mutations, ...luaMutants(root)].map((mutation) => ({
  ...mutation,
  source: pathOf(mutation.file),
}));
const now = fingerprints(tree, planted);

if (process.argv.includes('--record')) {
  writeJson(record, now);
  writeJson(durations, slowFiles(readFileSync(process.argv.at(-1) ?? '', 'utf8')));
} else {
  const proven =
    !process.argv.includes('--full') && existsSync(record) ? JSON.parse(readFileSync(record, 'utf8')) : {};
  for (const name of changed(now, proven)) process.stdout.write(`${name}\n`);
}

function writeJson(path, value) {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}

/** The present record, with the files of this run; of two runs of a file, the longer one. */
function slowFiles(ran) {
  const seconds = {};
  for (const line of ran.trim().split('\n')) {
    const [file, took] = line.split('\t');
    const name = file.replace(/^dist\/test\/|\.test\.js$/g, '');
    seconds[name] = Math.max(seconds[name] ?? 0, Number(took));
  }
  const all = Object.entries({ ...JSON.parse(readFileSync(durations, 'utf8')), ...seconds });
  return Object.fromEntries(
    all.filter(([, took]) => took >= SLOW).sort(([one], [other]) => (one < other ? -1 : 1)),
  );
}
