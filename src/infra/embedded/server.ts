import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Account } from './server-account.ts';
import type { Binaries } from './binaries.ts';
import { dataArgument } from './cluster.ts';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';
import { shutdownSteps } from './leftovers.ts';
import { environment } from './run-program.ts';

export type ServerLog = { debug: (message: string) => void; warn: (message: string) => void };
export type Server = { port: number; stop: () => Promise<void> };
type Options = {
  folder: string;
  binaries: Binaries;
  account: Account;
  log: ServerLog;
  onExit: (reason: string) => void;
};

/** Milliseconds for a start, in which PostgreSQL may replay its log after a crash. */
const startTimeout = 60_000;

/**
 * Starts PostgreSQL on a free port of 127.0.0.1 and waits until it answers. Calls `onExit` if the server later ends
 * unexpectedly. Rejects with EmbeddedDatabaseError and the last lines of PostgreSQL's log.
 */
export async function startServer(options: Options): Promise<Server> {
  for (let tries = 1; ; tries += 1) {
    const port = await freePort();
    const { ready, lastWords, stop } = launch(port, options);
    if (await ready) return { port, stop };
    await stop();
    // Another process may have taken the port in between.
    if (tries < 3 && lastWords().includes('could not bind')) continue;
    throw new EmbeddedDatabaseError(`PostgreSQL did not start: ${lastWords()}`);
  }
}

function launch(port: number, { folder, binaries, account, log, onExit }: Options) {
  const child = spawn(binaries.postgres, settings(port, dataArgument(folder, account)), {
    cwd: folder,
    ...account,
    env: environment,
    // A separate process group: Ctrl-C in a terminal signals the whole group, and would stop the database while the
    // service still answers requests.
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const tail: string[] = [];
  let state: 'starting' | 'running' | 'stopping' = 'starting';
  // Stops the server even after an uncaught error. Only a killed process leaves it behind (see leftovers.ts).
  const killAtExit = () => child.kill('SIGINT');
  process.once('exit', killAtExit);
  const ended = new Promise<void>((resolve) => {
    const settle = (reason: string) => {
      process.off('exit', killAtExit);
      tail.push(reason);
      if (state === 'running') onExit(tail.slice(-2).join('; '));
      resolve();
    };
    child.once('error', (error) => {
      settle(error.message);
    });
    child.once('close', (code, signal) => {
      settle(`it ended with ${signal ?? `code ${code ?? 'unknown'}`}`);
    });
  });
  const accepts = watchLog(child.stderr, log, tail, () => state === 'stopping');
  const ready = Promise.race([
    accepts.then(() => ((state = 'running'), true)),
    ended.then(() => false),
    sleep(startTimeout, false, { ref: false }),
  ]);
  const stop = async () => {
    state = 'stopping';
    await end(child, ended);
  };
  return { ready, lastWords: () => tail.slice(-5).join('; '), stop };
}

/** Resolves when PostgreSQL logs that it accepts connections; otherwise stays pending. */
function watchLog(
  stderr: Readable,
  log: ServerLog,
  tail: string[],
  isStopping: () => boolean,
): Promise<void> {
  return new Promise((resolve) => {
    createInterface({ input: stderr }).on('line', (line) => {
      // Our log has a time and a pid already.
      const message = line.replace(/^.*?\[\d+\] /, '');
      tail.push(message);
      if (tail.length > 20) tail.shift();
      // A stop cuts connections that their clients have given up, and PostgreSQL calls each of them fatal.
      const isExpected = isStopping() && message.includes('terminating connection');
      if (/^(FATAL|PANIC)/.test(message) && !isExpected) log.warn(`PostgreSQL: ${message}`);
      else log.debug(`PostgreSQL: ${message}`);
      if (message.includes('ready to accept connections')) resolve();
    });
  });
}

function settings(port: number, folder: string): string[] {
  const set = {
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    timezone: 'UTC',
    // The service logs failed statements. PostgreSQL would log e-mail addresses in them.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
  };
  return ['-D', folder, ...Object.entries(set).flatMap(([name, value]) => ['-c', `${name}=${value}`])];
}

/** Windows has no such signals: there the first one kills the server, which recovers at the next start. */
async function end(child: ChildProcess, ended: Promise<void>): Promise<void> {
  for (const [signal, patience] of shutdownSteps) {
    child.kill(signal);
    const isOver = await Promise.race([ended.then(() => true), sleep(patience, false, { ref: false })]);
    if (isOver) return;
  }
  throw new EmbeddedDatabaseError(
    `PostgreSQL (process ${child.pid ?? 'unknown'}) does not stop: end that process`,
  );
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}
