// `npm run check`: types, lint, format, boundaries, the client's operations and planted mistakes of all but
// the laboratory, at the same time. Prints the output of each that failed. With `--lab` (`npm run check -w
// lab`), types, lint and format of the laboratory alone.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';

const root = new URL('..', import.meta.url).pathname;
const isLab = process.argv.includes('--lab');

// All of them read the generated client and the packages' types.
process.argv.push('--service', '--packages');
await import('./build.mjs');

const passed = await Promise.all([
  check('types', 'scripts/build.mjs', ...(isLab ? ['--lab'] : [])),
  check(
    'lint',
    'node_modules/oxlint/bin/oxlint',
    '--report-unused-disable-directives',
    ...(isLab ? ['lab'] : ['--ignore-pattern', 'lab']),
  ),
  check('format', 'node_modules/oxfmt/bin/oxfmt', '--check', ...(isLab ? ['lab'] : ['.', '!lab'])),
  ...(isLab
    ? []
    : [
        check('boundaries', 'scripts/boundaries.mjs'),
        check('operations of the client', 'scripts/client-operations.mjs'),
        check('planted mistakes', 'scripts/mutations.mjs', '--check'),
      ]),
]);
if (passed.includes(false)) process.exitCode = 1;

/** @returns whether the program found nothing */
async function check(name, file, ...args) {
  const since = performance.now();
  const child = spawn(process.execPath, [join(root, file), ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output += text));
  const [code] = await once(child, 'close');
  const seconds = ((performance.now() - since) / 1000).toFixed(1);
  process.stdout.write(
    `${code === 0 ? 'ok' : 'not ok'} - ${name}, ${seconds} s\n${code === 0 ? '' : output}`,
  );
  return code === 0;
}
