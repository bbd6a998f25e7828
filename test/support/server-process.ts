import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Test } from 'tap';
import { bareEnvironment } from './environment.ts';
import { isAlive } from './free-port.ts';
import { until } from './until.ts';

/** Ends the program when its own standard input closes. That happens even if the test is killed. */
const GUARD =
  'signal=$1; shift; "$@" >/dev/null & echo $!; cat >/dev/null; exec 2>/dev/null; kill -s "$signal" %1; wait';

/** A server process. It ends with the test, even if the test is killed. */
export interface ServerProcess {
  pid: number;
  /** Its standard error. */
  errors: () => string;
  /** Ends it and waits. */
  end: () => Promise<void>;
}

interface Options {
  /** Whether it accepts requests yet. */
  answers: (pid: number) => boolean | Promise<boolean>;
  /** The signal that stops it. */
  signal?: 'TERM' | 'KILL' | 'QUIT';
  /** Another source of the reason why it ended. */
  log?: () => string;
  env?: Record<string, string>;
  cwd?: string;
  uid?: number;
  gid?: number;
}

/** Starts a program and waits until it answers. @throws Error if it ends before. */
export async function startServerProcess(
  t: Test,
  command: [program: string, ...args: string[]],
  { answers, signal = 'TERM', log = () => '', env = {}, ...spawning }: Options,
): Promise<ServerProcess> {
  // Without --norc, bash mistakes the pipe at its standard input for a remote shell and reads ~/.bashrc.
  const guard = spawn('bash', ['--norc', '-c', GUARD, 'guard', signal, ...command], {
    ...spawning,
    env: bareEnvironment(env),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = once(guard, 'exit');
  let errors = '';
  guard.stderr.setEncoding('utf8').on('data', (text: string) => (errors += text));
  const end = async () => {
    guard.stdin.end();
    await ended;
  };
  t.teardown(end);
  const [line] = (await once(createInterface({ input: guard.stdout }), 'line')) as [string];
  const pid = Number(line);
  await until(async () => {
    if (!isAlive(pid)) throw new Error(`${command[0]} ended:\n${errors}${log()}`);
    return answers(pid);
  });
  return { pid, errors: () => errors, end };
}

/** Whether a server answers HTTP requests at this URL, with any status. */
export async function answersHttp(url: string): Promise<boolean> {
  return (await fetch(url).catch(() => null)) !== null;
}
