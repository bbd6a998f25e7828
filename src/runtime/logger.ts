import { writeSync } from 'node:fs';
import { pino, type Logger } from 'pino';
import type { Tracer } from '../telemetry/tracer.ts';

/** The log of the service. */
export interface Log {
  logger: Logger;
  output: Pick<LogOutput, 'openAudit' | 'dropped'>;
}

/** The fields of every line. */
export const LINE_FORMAT = {
  base: null,
  timestamp: pino.stdTimeFunctions.isoTime,
  // Pino calls this once per level, not per line.
  formatters: { level: (label: string) => ({ level: label }) },
};

/**
 * Writes JSON lines, or readable ones if the output is a terminal and pino-pretty is installed.
 * @param level LOG_LEVEL.
 * @param tracer if given, each line that belongs to a request carries its trace id.
 */
export function makeLogger(level: string, isTerminal: boolean, tracer?: Tracer): Log {
  const base = { ...LINE_FORMAT, level, ...(tracer && { mixin: () => traceOf(tracer) }) };
  if (isTerminal && isInstalled('pino-pretty')) {
    const transport = { target: 'pino-pretty', options: { translateTime: 'SYS:HH:MM:ss.l' } };
    return { logger: pino({ ...base, transport }), output: TERMINAL };
  }
  const output = openLogOutput((lines) => {
    logger.warn({ lines }, 'the log could not be written for a while: lines were dropped');
  });
  const logger = pino(base, output);
  return { logger, output };
}

/** A terminal is written at once. */
const TERMINAL: Log['output'] = {
  openAudit: () => (line) => void process.stdout.write(line),
  dropped: () => 0,
};

/** The field names that OpenTelemetry specifies for trace context in logs of other formats. */
function traceOf(tracer: Tracer): object {
  const current = tracer.current();
  return current ? { trace_id: current.traceId, span_id: current.spanId } : {};
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name);
    return true;
  } catch {
    return false;
  }
}

/**
 * Lines are written in blocks: under load, one write per line costs a tenth of a core. A block is written when it is
 * full, after this interval (milliseconds), and when the process ends.
 */
const BLOCK = 4096;
const FLUSH_INTERVAL = 100;

/**
 * How much text waits for a reader that has stopped, or for space on the disk; UTF-16 units, which are bytes unless a
 * line is not ASCII. Later lines are dropped. Events of the audit trail have room of their own: a stranger can cause
 * request lines without end, and must not hide with them what else he does.
 */
const MAX_WAITING = 4 * 1024 ** 2;
const MAX_AUDIT_WAITING = 1024 ** 2;

/** How long the end of the process waits for such a reader, and the pause between two attempts; milliseconds. */
const EXIT_TIMEOUT = 500;
const EXIT_RETRY = 10;

/** What becomes of events of the audit trail, told as it happens. */
export interface AuditFate {
  onLost: (events: number) => void;
  /** All that waited were written. */
  onWritten: () => void;
}

/** Where log lines go. Pino calls `write` for each line, and `flushSync` for a fatal one. */
export interface LogOutput {
  write: (line: string) => void;
  /**
   * For the one who writes the audit trail.
   * @returns what writes an event before the lines that wait, and not with their block: unless the reader is slow, not
   * even kill -9 loses it later.
   */
  openAudit: (fate: AuditFate) => (line: string) => void;
  flushSync: () => void;
  /** The number of lines that were dropped because the log could not be written, events among them. */
  dropped: () => number;
}

interface LogOutputOptions {
  /** Writes as much as it can without waiting. @returns the number of bytes. @throws Error if it can write none. */
  writeSome: (bytes: Buffer) => number;
  /** Called when the log works again, with the number of lines that it lacks. */
  onResume: (dropped: number) => void;
  maxWaiting?: number;
}

/**
 * Standard output, without ever waiting for its reader: a log that blocks must not stop the service
 * (docs/adr/0018-metrics-traces-and-logs.md).
 * @param onResume see LogOutputOptions.
 */
function openLogOutput(onResume: LogOutputOptions['onResume']): LogOutput {
  // The first access to process.stdout makes a pipe non-blocking, so that a full one refuses a write at once (EAGAIN).
  const { fd } = process.stdout;
  const output = makeLogOutput({ writeSome: (bytes) => writeSync(fd, bytes), onResume });
  setInterval(output.flush, FLUSH_INTERVAL).unref();
  process.once('exit', output.flushSync);
  return output;
}

const LINE_END = '\n'.charCodeAt(0);

/** Lines that wait: the rest of a block of which only a part was written, and then the lines after it. */
function makeQueue(maxWaiting: number) {
  let block: Buffer = Buffer.alloc(0);
  let lines = '';
  const size = () => block.length + lines.length;
  return {
    size,
    hasRoom: (line: string) => size() + line.length <= maxWaiting,
    add(line: string): void {
      lines += line;
    },
    next(): Buffer {
      if (block.length === 0) {
        block = Buffer.from(lines);
        lines = '';
      }
      return block;
    },
    wrote(bytes: number): void {
      block = block.subarray(bytes);
    },
    /** @returns how many lines were dropped. */
    drop(): number {
      const count = `${block.toString()}${lines}`.split('\n').length - 1;
      block = Buffer.alloc(0);
      lines = '';
      return count;
    },
  };
}

type Queue = ReturnType<typeof makeQueue>;

export function makeLogOutput({ writeSome, onResume, maxWaiting = MAX_WAITING }: LogOutputOptions) {
  const log = makeQueue(maxWaiting);
  const audit = makeQueue(MAX_AUDIT_WAITING);
  /** Of which a part of a line was written: nothing may come before its end. */
  let open: Queue | null = null;
  let isBlocked = false;
  let dropped = 0;
  let reported = 0;
  let fate: AuditFate | null = null;

  /**
   * Writes what waits, up to the first failure. Lines wait for a reader that stops or a disk that is full, and not for
   * a reader that has ended.
   */
  function writeWaiting({ onlyAudit }: { onlyAudit: boolean }): void {
    let hasWritten = false;
    let hasWrittenAudit = false;
    isBlocked = false;
    try {
      while (open || audit.size() > 0 || (!onlyAudit && log.size() > 0)) {
        const queue: Queue = open ?? (audit.size() > 0 ? audit : log);
        const block = queue.next();
        const isAuditNext = queue === log && audit.size() > 0;
        const written = writeSome(isAuditNext ? block.subarray(0, block.indexOf(LINE_END) + 1) : block);
        open = block[written - 1] === LINE_END ? null : queue;
        queue.wrote(written);
        hasWritten = true;
        if (queue === audit && audit.size() === 0) hasWrittenAudit = true;
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EPIPE') dropWaiting();
      else isBlocked = true;
    }
    if (hasWrittenAudit) fate?.onWritten();
    if (!hasWritten || isBlocked || dropped === reported) return;
    const lost = dropped - reported;
    reported = dropped;
    onResume(lost);
    flush();
  }

  function flush(): void {
    writeWaiting({ onlyAudit: false });
  }

  function dropWaiting(): void {
    const events = audit.drop();
    dropped += events + log.drop();
    open = null;
    if (events > 0) fate?.onLost(events);
  }

  function write(line: string): void {
    if (isBlocked && !log.hasRoom(line)) {
      dropped++;
      return;
    }
    log.add(line);
    // The timer tries a blocked output again: an attempt for each line would only cost time.
    if (log.size() >= BLOCK && !isBlocked) flush();
  }

  function writeAudit(line: string): void {
    if (isBlocked && !audit.hasRoom(line)) {
      dropped++;
      fate?.onLost(1);
      return;
    }
    audit.add(line);
    if (!isBlocked) writeWaiting({ onlyAudit: true });
  }

  function openAudit(its: AuditFate) {
    fate = its;
    return writeAudit;
  }

  function flushSync(): void {
    const deadline = performance.now() + EXIT_TIMEOUT;
    flush();
    while (isBlocked && performance.now() < deadline) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, EXIT_RETRY);
      flush();
    }
  }

  return { write, openAudit, flush, flushSync, dropped: () => dropped };
}
