import { closeSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { removeFragment } from './fragment.ts';

/** AUDIT_LOG: `stdout`, `none` or `file:PATH`. */
export type AuditTarget = string;

export interface AuditLog {
  /** Writes a line as soon as possible. Never throws, and never blocks. */
  write(line: string): void;
  /** Resolves once every line is written or lost. */
  flush(): Promise<void>;
}

interface AuditLogPorts {
  /** @returns what writes a line to standard output without waiting for its reader. */
  openAudit: (fate: { onLost: (lines: number) => void; onWritten: () => void }) => (line: string) => void;
  /** Lines were lost. @param code of the error; `WAITING` if too many lines wait for a reader or a disk. */
  onLost: (lines: number, code: string) => void;
  /** All that waited was written. */
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

function toStdout({ openAudit, onLost, onWritten }: AuditLogPorts): AuditLog {
  const write = openAudit({
    onLost: (lines) => {
      onLost(lines, 'WAITING');
    },
    onWritten,
  });
  return { write, flush: () => Promise.resolve() };
}

/**
 * Opens the file for each batch of lines, so that it may be renamed at any time, without a signal. A batch is one write:
 * several processes may append, and no line of theirs may come between its parts.
 */
function toFile(path: string, { onLost, onWritten }: AuditLogPorts): AuditLog {
  closeSync(openSync(path, 'a', MODE));
  let waiting: string[] = [];
  let size = 0;
  /** The file ends with a part of a line: the next batch begins a new one. */
  let hasFragment = false;
  let writing: Promise<void> | null = null;

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const lines = waiting;
      waiting = [];
      const text = lines.join('');
      const bytes = Buffer.from(hasFragment ? `\n${text}` : text);
      try {
        const taken = bytes.subarray(0, await append(path, bytes));
        hasFragment = !removeFragment(path, taken);
        const whole = taken.toString().trimStart().split('\n').length - 1;
        // Only a full disk takes a part of a write.
        if (whole < lines.length) onLost(lines.length - whole, 'ENOSPC');
        // Before, a slow disk may lose the next line, and the log would tell of both in turns.
        else if (waiting.length === 0) onWritten();
      } catch (error) {
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

/** @returns how many bytes were written. */
async function append(path: string, bytes: Uint8Array): Promise<number> {
  const file = await open(path, 'a', MODE);
  try {
    return (await file.write(bytes)).bytesWritten;
  } finally {
    await file.close();
  }
}
