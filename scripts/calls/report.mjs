// `node scripts/calls/report.mjs FOLDER [BUILD]`: reads what tests with TEST_COVERAGE=FOLDER recorded, and fails for every
// compiled source file (below dist/src and dist/packages) whose functions the tests call too few of, or which no test
// loads.
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** The part of a file's functions that tests must call. In a small file one uncalled error handler is a third of them. */
const LEAST = 0.6;

const [folder = '.', build = new URL('../../dist/', import.meta.url).pathname] = process.argv.slice(2);

/** @type {Map<string, Map<string, { name: string, isCalled: boolean }>>} */
const functionsOf = new Map();
const lines = readdirSync(folder)
  .flatMap((record) => readFileSync(join(folder, record), 'utf8').split('\n'))
  .filter((line) => line !== '')
  .map((line) => line.split('\t'));
const isOwn = ([root]) => root === build;
for (const line of lines.filter(isOwn)) define(line);
// Tests also run copies of the build, and the previous release. Of a file that tests load from this build, they count only
// for functions that it has.
const own = new Set(functionsOf.keys());
for (const line of lines.filter((line) => !isOwn(line))) {
  if (own.has(line[1])) markCalled(line);
  else define(line);
}

const files = [
  'src',
  'packages/agent/src',
  'packages/client/src',
  'packages/load/src',
  'packages/verifier/src',
]
  .filter((sources) => existsSync(join(build, sources)))
  .flatMap((sources) =>
    readdirSync(join(build, sources), { recursive: true }).map((name) => `${sources}/${name}`),
  )
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => name.endsWith('.js') && !name.startsWith('src/generated/') && hasCode(name))
  .sort();
const weak = files.map(judge).filter(({ part }) => part < LEAST);
for (const { file, part, uncalled } of weak) {
  const what =
    uncalled === null ? 'no test loads it' : `tests call ${percent(part)} of its functions, not: ${uncalled}`;
  process.stdout.write(`${file.replace(/\.js$/, '.ts')}: ${what}\n`);
}
process.stdout.write(
  `${files.length} source files, ${weak.length} with less than ${percent(LEAST)} of their functions called\n`,
);
process.exitCode = weak.length === 0 && files.length > 0 ? 0 : 1;

function define([, file, start, called, name]) {
  if (!functionsOf.has(file)) functionsOf.set(file, new Map());
  const functions = functionsOf.get(file);
  functions.set(start, { name, isCalled: called === '1' || functions.get(start)?.isCalled === true });
}

function markCalled([, file, start, called, name]) {
  const known = functionsOf.get(file).get(start);
  if (known?.name === name && called === '1') known.isCalled = true;
}

function judge(file) {
  const functions = functionsOf.get(file);
  if (functions === undefined) return { file, part: 0, uncalled: null };
  // The module itself is a function without a name, at the beginning.
  const all = [...functions].filter(([start, { name }]) => start !== '0' || name !== '').map(([, it]) => it);
  const uncalled = all.filter(({ isCalled }) => !isCalled).map(({ name }) => name || '(anonymous)');
  const part = all.length === 0 ? 1 : 1 - uncalled.length / all.length;
  return { file, part, uncalled: uncalled.join(', ') };
}

/** Whether a source contains more than types. */
function hasCode(file) {
  const compiled = readFileSync(join(build, file), 'utf8');
  return compiled.replace(/^(?:export \{\};|\/\/.*|import ["'].*["'];)$/gm, '').trim() !== '';
}

function percent(part) {
  return `${Math.floor(part * 100)}%`;
}
