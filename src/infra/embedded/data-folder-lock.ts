import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { linkSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DataFolderInUseError } from './embedded-database-error.ts';

export type DataFolderLock = { release: () => void };

type Holder = { pid: number; started: string | undefined };

const lockName = /^postgres\.lock\.(\d+)$/;
const released = 'released';

/**
 * Locks the data folder for this process. Takes over a lock that was released or whose holder has died.
 *
 * Node has no flock, and "delete the stale lock file, then create mine" lets two processes in: the slower one
 * deletes the faster one's new lock. So locks are numbered, and the highest number counts. A successor
 * creates the next number, which only one process can do, and never deletes the highest.
 *
 * The lock does not protect against other containers that share the folder: pids differ between containers.
 * @throws DataFolderInUseError if another live process holds the lock
 */
export function lockDataFolder(dataDir: string): DataFolderLock {
  const latest = highest(dataDir);
  const holder = latest === 0 ? undefined : liveHolder(join(dataDir, `postgres.lock.${latest}`));
  if (holder) throw inUse(dataDir, holder.pid);

  const mine = latest + 1;
  const path = join(dataDir, `postgres.lock.${mine}`);
  if (!create(path)) return lockDataFolder(dataDir);
  // Between reading and creating, other processes may have taken and released locks, and removed lower numbers.
  if (highest(dataDir) !== mine) {
    rmSync(path, { force: true });
    return lockDataFolder(dataDir);
  }
  for (const number of numbers(dataDir)) {
    if (number < mine) rmSync(join(dataDir, `postgres.lock.${number}`), { force: true });
  }
  return {
    release: () => {
      writeFileSync(path, released);
    },
  };
}

/** Creates the lock with its content in one step, so that no process reads half of it. False if it exists. */
function create(path: string): boolean {
  const draft = `${path}.${randomUUID()}`;
  const me: Holder = { pid: process.pid, started: startOf(process.pid) };
  writeFileSync(draft, JSON.stringify(me), { mode: 0o644, flag: 'wx' });
  try {
    linkSync(draft, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

function liveHolder(path: string): Holder | undefined {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    // A successor has cleaned up; the next read finds its lock.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
  const holder = parse(text);
  return holder?.started !== undefined && startOf(holder.pid) === holder.started ? holder : undefined;
}

/** Undefined for a released lock, and for a file that a power cut left incomplete: its writer is gone. */
function parse(text: string): Holder | undefined {
  try {
    return JSON.parse(text) as Holder;
  } catch {
    return undefined;
  }
}

function numbers(dataDir: string): number[] {
  return readdirSync(dataDir)
    .flatMap((name) => lockName.exec(name)?.[1] ?? [])
    .map(Number);
}

function highest(dataDir: string): number {
  return Math.max(0, ...numbers(dataDir));
}

function inUse(dataDir: string, pid: number): DataFolderInUseError {
  return new DataFolderInUseError(
    `the embedded database in ${dataDir} is in use by process ${pid}; stop that one, or set DATABASE_URL or another DATA_DIR`,
  );
}

/**
 * When the process `pid` started, as an opaque text; undefined if there is no such process.
 * A pid alone does not identify a process: after a reboot or a container restart, another process may have it.
 */
function startOf(pid: number): string | undefined {
  if (process.platform === 'linux') return linuxStart(pid);
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return undefined;
  }
  if (process.platform === 'win32') return 'running';
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    return undefined;
  }
}

function linuxStart(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may contain spaces, so count fields after it. In proc_pid_stat(5) the state is field 3,
    // and the start in clock ticks since boot is field 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state = '', ticks = ''] = [fields[0], fields[19]];
    // A zombie has ended; only its parent has not waited for it yet.
    if (state === 'Z' || state === 'X') return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${ticks}`;
  } catch {
    return undefined;
  }
}
