// `npm test [FILE…]`: builds, then runs the compiled tests with tap; says at the end which suites were left out.
// Names are matched against the compiled files: `npm test -- rotation`.
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const filters = process.argv.slice(2);

await import('./build.mjs');

const files = testFiles(join(root, 'dist/test')).filter(
  (file) => filters.length === 0 || filters.some((filter) => file.includes(filter)),
);
if (files.length === 0) {
  process.stderr.write('no test file matches\n');
  process.exit(1);
}
const tap = join(root, 'node_modules/tap/dist/esm/run.mjs');
const { status } = spawnSync(process.execPath, [tap, 'run', ...files], { cwd: root, stdio: 'inherit' });
process.exit(status ?? 1);

function testFiles(folder) {
  return readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith('.test.js'))
    .map((name) => join('dist/test', name))
    .filter((name) => existsSync(join(root, name.replace(/^dist\//, '').replace(/\.js$/, '.ts'))))
    .sort();
}
