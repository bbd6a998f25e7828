import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Environment } from '../../src/config.ts';
import { bareEnvironment } from './service.ts';

const CLI = new URL('../../src/cli.js', import.meta.url).pathname;

/**
 * Runs an operators' command as a process of its own.
 * @param cli the built cli.js: this version's, or an earlier one's.
 */
export async function latchkey(args: string[], env: Environment = {}, cli = CLI) {
  const child = spawn(process.execPath, [cli, ...args], {
    env: bareEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  return { code, stdout, stderr };
}
