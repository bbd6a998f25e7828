import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Environment } from '../../src/config/config.ts';
import { bareEnvironment } from './environment.ts';
import { leakWatch } from './leaks/leak-watch.ts';
import { logLines } from './log-lines.ts';
import { rememberConfiguration } from './leaks/watched-instance.ts';

const CLI = new URL('../../src/cli.js', import.meta.url).pathname;

/**
 * Runs an operators' command as a process of its own.
 * @returns its audit events apart from the rest of standard error.
 * @param cli the built cli.js: this version's, or an earlier one's.
 * @param input standard input.
 * @param started gets the process, to send it a signal.
 */
export async function latchkey(
  args: string[],
  env: Environment = {},
  cli = CLI,
  input = '',
  started: (child: ChildProcess) => void = () => undefined,
) {
  const child = spawn(process.execPath, [cli, ...args], { env: bareEnvironment(env) });
  started(child);
  child.stdin.end(input);
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const [code] = (await once(child, 'close')) as [number];
  watch(args, env, { stdout, stderr });
  const lines = logLines(stderr).filter(({ log }) => log === 'audit');
  return { code, stdout, stderr: stderr.replace(/^\{"log":"audit",.*\n/gm, ''), audit: lines };
}

/** Standard output may hold requested secrets, such as a new client secret. Standard error is a log. */
function watch(
  args: string[],
  env: Environment,
  { stdout, stderr }: { stdout: string; stderr: string },
): void {
  leakWatch.exchanged(stdout);
  rememberConfiguration(env);
  const watched = leakWatch.watch(`latchkey ${args.join(' ')}`, true);
  watched.heard('log', stderr);
  watched.check();
}
