import { closeSync, openSync } from 'node:fs';
import { appendFile } from 'node:fs/promises';

/** AUDIT_LOG: `stdout`, `none` or `file:PATH`. */
export type AuditTarget = string;

export interface AuditLog {
  /** Writes a line as soon as possible. Never throws, and never blocks. */
  write(line: string): void;
  /** Resolves once every line is written or lost. */
  flush(): Promise<void>;
}

interface AuditLogPorts {
  /** Writes a line to standard output without waiting for its reader. @returns false if the line was dropped. */
  writeNow: (line: string) => boolean;
  /** Lines were lost. @param code of the error; `WAITING` if too many lines wait for a reader or a disk. */
  onLost: (lines: number, code: string) => void;
  onWritten: () => void;
}

/** Readable by the group, so that a collector needs no further rights. */
export const MODE = 0o640;

/** Characters that may wait for a disk; further lines are lost. */
const MAX_WAITING = 1024 * 1024;

/**
 * Opens the audit trail.
 * @throws NodeJS.ErrnoException if the file cannot be written.
 */
export function openAuditLog(target: AuditTarget, ports: AuditLogPorts): AuditLog {
  if (target === 'none') return { write: () => undefined, flush: () => Promise.resolve() };
  const path = fileOf(target);
  return path === null ? toStdout(ports) : toFile(path, ports);
}

/** The path of `file:PATH`; null for any other target. */
export function fileOf(target: AuditTarget): string | null {
  return target.startsWith('file:') ? target.slice('file:'.length) : null;
}

function toStdout({ writeNow, onLost, onWritten }: AuditLogPorts): AuditLog {
  return {
    write(line) {
      if (writeNow(line)) onWritten();
      else onLost(1, 'WAITING');
    },
    flush: () => Promise.resolve(),
  };
}

/**
 * Opens the file for each batch of lines, so that it may be renamed at any time, without a signal. After an error the
 * next batch begins a new line: the disk may have taken a part of the last one.
 */
function toFile(path: string, { onLost, onWritten }: AuditLogPorts): AuditLog {
  closeSync(openSync(path, 'a', MODE));
  let waiting: string[] = [];
  let size = 0;
  let hasFailed = false;
  let writing: Promise<void> | null = null;

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const lines = waiting;
      waiting = [];
      const text = lines.join('');
      try {
        await appendFile(path, hasFailed ? `\n${text}` : text, { mode: MODE });
        hasFailed = false;
        onWritten();
      } catch (error) {
        hasFailed = true;
        const { code, name } = error as NodeJS.ErrnoException;
        onLost(lines.length, code ?? name);
      }
      size -= text.length;
    }
    writing = null;
  }

  return {
    write(line) {
      if (size + line.length > MAX_WAITING) {
        onLost(1, 'WAITING');
        return;
      }
      waiting.push(line);
      size += line.length;
      writing ??= writeAll();
    },
    flush: () => writing ?? Promise.resolve(),
  };
}
