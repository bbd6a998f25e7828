import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, readlinkSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** Fast shutdown, then shutdown without a checkpoint, then the end; each with its milliseconds of patience. */
export const shutdownSteps: [signal: NodeJS.Signals, patience: number][] = [
  ['SIGINT', 10_000],
  ['SIGQUIT', 5_000],
  ['SIGKILL', 5_000],
];

/**
 * Stops PostgreSQL processes that a killed parent left behind in `folder`, and resolves to how many there
 * were. Only for the holder of the data folder's lock: the server of a live parent would be stopped as well.
 * Rejects with EmbeddedDatabaseError if one does not end.
 */
export async function stopLeftovers(folder: string): Promise<number> {
  const found = processesIn(folder);
  const postmaster = postmasterOf(folder);
  // A fast shutdown is the postmaster's to carry out. Without one, the rest has nothing left to save.
  const isOrderly = postmaster !== undefined && found.includes(postmaster);
  for (const [signal, patience] of isOrderly ? shutdownSteps : shutdownSteps.slice(1)) {
    const told = signal === 'SIGINT' ? found.filter((pid) => pid === postmaster) : processesIn(folder);
    for (const pid of told) signalIfThere(pid, signal);
    if (await areGone(folder, patience)) break;
  }
  const left = processesIn(folder);
  if (left.length > 0) {
    throw new EmbeddedDatabaseError(
      `an earlier PostgreSQL in ${folder} does not end: process ${left.join(', ')}`,
    );
  }
  // Its pid may meanwhile be another program's, which PostgreSQL would take for itself and refuse to start.
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

/** The PostgreSQL programs at work in `folder`: a server's every process has its data as working directory. */
function processesIn(folder: string): number[] {
  if (process.platform !== 'linux') return postmasterByCommand(folder);
  const { dev, ino } = statSync(folder);
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const cwd = statSync(`/proc/${pid}/cwd`);
        if (cwd.dev !== dev || cwd.ino !== ino) return false;
        // The file is "(deleted)" when npm ci has replaced the package meanwhile.
        return /\/(postgres|initdb)( \(deleted\))?$/.test(readlinkSync(`/proc/${pid}/exe`));
      } catch {
        // Ended while we looked, or somebody else's, into which we may not look.
        return false;
      }
    })
    .map(Number);
}

/** Elsewhere only the postmaster is looked for, by its command line; the others end with it. */
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
