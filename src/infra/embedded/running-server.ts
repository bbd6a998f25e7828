import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { EmbeddedDatabaseError } from './embedded-database-error.ts';

/** Milliseconds to wait for a starting server, and between two reads of its pid file. */
const LOOKUP_TIMEOUT = 30_000;
const INTERVAL = 100;

/** The address of a server that another process runs. */
export interface RunningServer {
  port: number;
  password: string;
}

/**
 * Waits until the server of this data folder is ready, and reads its port from `postmaster.pid`.
 * Rejects with EmbeddedDatabaseError.
 */
export async function findRunningServer(dataDir: string, timeout = LOOKUP_TIMEOUT): Promise<RunningServer> {
  const deadline = performance.now() + timeout;
  for (;;) {
    const port = readyPort(read(join(dataDir, 'postgres', 'postmaster.pid')));
    const password = read(join(dataDir, 'postgres.password')).trim();
    if (port !== null && password !== '') return { port, password };
    if (performance.now() > deadline)
      throw new EmbeddedDatabaseError(
        `another process runs the embedded database in ${dataDir}, but it cannot be reached: stop that process, or run this command as its user`,
      );
    await sleep(INTERVAL);
  }
}

/** Line 4 of `postmaster.pid` is the port, line 8 the state. @returns null before the server is ready. */
export function readyPort(text: string): number | null {
  const lines = text.split('\n').map((line) => line.trim());
  const port = Number(lines[3]);
  return lines[7] === 'ready' && Number.isInteger(port) && port > 0 ? port : null;
}

/** @returns '' if the file is missing or this user may not read it. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
