import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** Fast shutdown, shutdown without a checkpoint, SIGKILL; each with its timeout in milliseconds. */
export const shutdownSteps: [signal: NodeJS.Signals, patience: number][] = [
  ['SIGINT', 10_000],
  ['SIGQUIT', 5_000],
  ['SIGKILL', 5_000],
];

/**
 * Stops PostgreSQL processes that a killed parent left behind in `folder`, and resolves to their number. The caller
 * must hold the data folder's lock, because this stops the server of a live parent too. Rejects with
 * EmbeddedDatabaseError if a process does not end.
 */
export async function stopLeftovers(folder: string): Promise<number> {
  const found = processesIn(folder);
  const postmaster = postmasterOf(folder);
  // Only a postmaster can do a fast shutdown. Without one, the other processes have nothing to save.
  const isOrderly = postmaster !== undefined && found.includes(postmaster);
  for (const [signal, patience] of isOrderly ? shutdownSteps : shutdownSteps.slice(1)) {
    const told = signal === 'SIGINT' ? found.filter((pid) => pid === postmaster) : processesIn(folder);
    for (const pid of told) signalIfThere(pid, signal);
    if (await areGone(folder, patience)) break;
  }
  const left = processesIn(folder);
  if (left.length > 0) {
    throw new EmbeddedDatabaseError(
      `an earlier PostgreSQL in ${folder} does not stop: end process ${left.join(', ')}`,
    );
  }
  // Another program may have its pid by now. PostgreSQL would take that program for a server and refuse to start.
  if (process.platform === 'linux') rmSync(join(folder, 'postmaster.pid'), { force: true });
  return found.length;
}

async function areGone(folder: string, patience: number): Promise<boolean> {
  const deadline = Date.now() + patience;
  while (processesIn(folder).length > 0) {
    if (Date.now() > deadline) return false;
    await sleep(20);
  }
  return true;
}

/** The PostgreSQL processes of `folder`: all processes of a server have its data folder as working directory. */
function processesIn(folder: string): number[] {
  if (process.platform !== 'linux') return postmasterByCommand(folder);
  const { dev, ino } = statSync(folder);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const cwd = statSync(`/proc/${pid}/cwd`);
        if (cwd.dev !== dev || cwd.ino !== ino) return false;
        // The file is "(deleted)" if npm ci has replaced the package since.
        return /\/(postgres|initdb)( \(deleted\))?$/.test(readlinkSync(`/proc/${pid}/exe`));
      } catch {
        // The process has just ended, or it belongs to another user and we may not inspect it.
        return false;
      }
    })
    .map(Number);
}

/** On other systems, finds only the postmaster, by its command line; its children end with it. */
function postmasterByCommand(folder: string): number[] {
  const pid = postmasterOf(folder);
  if (pid === undefined || process.platform === 'win32') return [];
  try {
    const command = execFileSync('ps', ['-ww', '-o', 'command=', '-p', String(pid)], { encoding: 'utf8' });
    return command.includes(`postgres -D ${folder} `) ? [pid] : [];
  } catch {
    return [];
  }
}

function postmasterOf(folder: string): number | undefined {
  try {
    const pid = Number(readFileSync(join(folder, 'postmaster.pid'), 'utf8').split('\n', 1)[0]);
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function signalIfThere(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
