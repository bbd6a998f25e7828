// `npm run set-version -- 1.1.0` writes the next version wherever this one stands: in packages, image, chart, manifests and
// commands of documents. It changes no history, such as CHANGELOG.md (docs/releasing.md).
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const HISTORY = [
  'CHANGELOG.md',
  'docs/adr',
  'docs/benchmarks*',
  'docs/performance.md',
  'docs/upgrading.md',
  'lab',
  'test',
  '*.test.yaml',
];

/** What stands before it. A version of anything else has something different there. */
const BEFORE =
  /latchkey[\w-]*[:/-]|\bv|[vV]ersion"?: "?|VERSION=|VERSION = '|[tT]ag: |"@latchkey\/\w+": "|release\/|Latchkey |release -- |## /;

const root = new URL('..', import.meta.url).pathname;
const [next = ''] = process.argv.slice(2);
if (!/^\d+\.\d+\.\d+(-[0-9a-z.-]+)?$/.test(next)) fail('give a version: npm run set-version -- 1.2.3');
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const stated = new RegExp(`(?<before>${BEFORE.source})${version.replaceAll('.', '\\.')}(?![\\d.]*\\d)`, 'g');
for (const file of run('git', [
  'ls-files',
  '--',
  '.',
  ':!*package-lock.json',
  ...HISTORY.map((path) => `:!${path}`),
])) {
  const text = readFileSync(join(root, file), 'utf8');
  const changed = text.replace(stated, `$<before>${next}`);
  if (changed !== text) writeFileSync(join(root, file), changed);
}
run('npm', ['install', '--package-lock-only', '--ignore-scripts']);

/** @returns the lines that it prints */
function run(program, words) {
  const { status, stdout, stderr } = spawnSync(program, words, { cwd: root, encoding: 'utf8' });
  if (status !== 0) fail(`${program} ${words.join(' ')} failed: ${stderr}`);
  return stdout.split('\n').filter(Boolean);
}

function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}
