// `npm run dev`: serves from src/ and restarts after each change. It checks no types (`npm run check` does). Stores and
// settings are those of `npm start`: embedded by default.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { endWithParent } from './end-with-parent.mjs';

const root = new URL('..', import.meta.url).pathname;

endWithParent();
await import('./build.mjs');

const children = [
  start([
    join(root, 'node_modules/typescript/bin/tsc'),
    '-p',
    'tsconfig.service.json',
    '--watch',
    '--preserveWatchOutput',
  ]),
  // No load balancer to wait for.
  start(['--watch', '--watch-preserve-output', join(root, 'dist/src/server.js')], { DRAIN_DELAY: '0' }),
];
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.on(signal, () => children.forEach((child) => child.kill(signal)));
}

function start(args, env = {}) {
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  // If one ends, end the other.
  child.on('exit', () => children.forEach((other) => other.kill('SIGTERM')));
  return child;
}
