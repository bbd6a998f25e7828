import { appendFileSync, writeSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { fileOf, MODE, type AuditTarget } from './audit-log.ts';

const STANDARD_ERROR = 2;

/**
 * Writes a line of an operator's command at once: the process may end right after it. Standard output is the command's
 * own, so `stdout` means standard error here.
 * @returns the code of the error; null if the line is written.
 */
export function writeCommandLine(target: AuditTarget, line: string): string | null {
  const path = fileOf(target);
  try {
    if (path !== null) appendFileSync(path, line, { mode: MODE });
    else if (target === 'stdout') writeSync(STANDARD_ERROR, line);
    return null;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'unknown';
  }
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
