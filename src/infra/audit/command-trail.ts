import {
  closeSync,
  constants,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statfsSync,
  writeSync,
} from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fileOf, MODE, type AuditTarget } from './audit-log.ts';
import { removeFragment } from './fragment.ts';

const STANDARD_ERROR = 2;

/** The program of the service that this command belongs to. */
const SERVER = fileURLToPath(new URL('../../server.js', import.meta.url));

/** Without O_NONBLOCK, a pipe that has no reader would hold the command up for ever. */
const FLAGS =
  constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY;

/** How often, and with which pause in milliseconds, a full pipe is tried again. */
const [ATTEMPTS, PAUSE] = [500, 10];

/** Where the event of a command goes. */
export interface CommandOutput {
  name: string;
  /** @returns the code of the error that a write would meet, as far as it can be known before; null if there is none. */
  check(): string | null;
  /** Writes a line at once: the process may end right after it. @returns the code of the error; null if it is written. */
  write(line: string): string | null;
}

/**
 * The output of AUDIT_LOG for a command. Standard output is the command's own, so `stdout` means that of the service
 * whose container the command runs in; elsewhere it means standard error.
 */
export function commandOutput(target: AuditTarget, proc = '/proc'): CommandOutput {
  if (target === 'none') return { name: target, check: () => null, write: () => null };
  const file = fileOf(target);
  if (file !== null) return outputTo(file, target);
  const path = serviceOutput(proc);
  if (path === null) return standardError;
  const output = outputTo(path, `the service's standard output (${path})`);
  // If the service ends while the command runs, its output ends with it.
  const hasEnded = (code: string | null) => code === 'ENOENT';
  return {
    name: output.name,
    check() {
      const code = output.check();
      return hasEnded(code) ? null : code;
    },
    write(line) {
      const code = output.write(line);
      return hasEnded(code) ? standardError.write(line) : code;
    },
  };
}

const standardError: CommandOutput = {
  name: 'standard error',
  check: () => null,
  write: (line) =>
    codeOf(() => {
      writeWhole(STANDARD_ERROR, '/dev/stderr', line);
    }),
};

function outputTo(path: string, name: string): CommandOutput {
  return {
    name,
    check: () =>
      codeOf(() => {
        closeSync(openSync(path, FLAGS, MODE));
        const { blocks, bavail } = statfsSync(path);
        if (blocks > 0 && bavail === 0) throw noSpace();
      }),
    write: (line) =>
      codeOf(() => {
        const fd = openSync(path, FLAGS, MODE);
        try {
          writeWhole(fd, path, line);
        } finally {
          closeSync(fd);
        }
      }),
  };
}

/**
 * One write, because several processes append: a pipe takes a line of less than 4096 bytes whole or not at all.
 */
function writeWhole(fd: number, path: string, line: string): void {
  let bytes = Buffer.from(line);
  for (let attempt = 1; ; attempt++) {
    try {
      const taken = bytes.subarray(0, writeSync(fd, bytes));
      if (taken.length === bytes.length) return;
      removeFragment(path, taken);
      throw noSpace();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN' || attempt === ATTEMPTS) throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
      // The full pipe may hold the beginning of a line whose rest the service has still to write.
      bytes = Buffer.from(`\n${line}`);
    }
  }
}

function noSpace(): Error {
  return Object.assign(new Error(), { code: 'ENOSPC' });
}

function codeOf(work: () => void): string | null {
  try {
    work();
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown';
  }
}

/**
 * The standard output of the service in whose container this command runs (`podman exec`, `kubectl exec`). The collector
 * reads it; the command's own output goes to its caller alone. The service is the first process of the container, or
 * the child of an init of the same user. That leaves out a host, whose init is root's and starts services as others.
 * Only the service's user may open the path: the kernel refuses it to any other, and so the command does.
 * @returns null if there is no such service.
 */
export function serviceOutput(proc = '/proc'): string | null {
  try {
    const init = statusOf(`${proc}/1`).user;
    const pid = readdirSync(proc).find((name) => /^\d+$/.test(name) && isService(`${proc}/${name}`, init));
    return pid === undefined ? null : `${proc}/${pid}/fd/1`;
  } catch {
    // There is no /proc, or it hides the processes of other users.
    return null;
  }
}

function isService(path: string, init: string): boolean {
  try {
    if (!runsServer(path)) return false;
    const { parent, user } = statusOf(path);
    // The first process of a container has no parent that it can see, even if containers of a pod see each other's.
    return parent === '0' || (parent === '1' && user === init);
  } catch {
    // It has ended meanwhile.
    return false;
  }
}

function runsServer(path: string): boolean {
  const scripts = readFileSync(`${path}/cmdline`, 'utf8')
    .split('\0')
    .filter((word) => word.endsWith('server.js'));
  return scripts.some((script) => realpathSync(resolve(folderOf(path), script)) === SERVER);
}

/** The working folder; of another user's process, which hides it, the one that both have from the image. */
function folderOf(path: string): string {
  try {
    return readlinkSync(`${path}/cwd`);
  } catch {
    return process.cwd();
  }
}

function statusOf(path: string): { parent: string; user: string } {
  const status = readFileSync(`${path}/status`, 'utf8');
  const [parent, user] = ['PPid', 'Uid'].map(
    (name) => new RegExp(`^${name}:\t(\\d+)`, 'm').exec(status)?.[1],
  );
  return { parent: parent ?? '', user: user ?? '' };
}

/** The operating system's user and host. In a container the user id may have no name. */
export function operator(): { name: string; host: string } {
  const host = hostname();
  try {
    return { name: userInfo().username, host };
  } catch {
    return { name: `uid ${process.getuid?.() ?? 'unknown'}`, host };
  }
}
