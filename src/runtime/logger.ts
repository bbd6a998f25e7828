import { pino, type Logger } from 'pino';
import type { Tracer } from '../telemetry/tracer.ts';
import { openLogOutput, type LogOutput } from './log-output.ts';

/** The log of the service. */
export interface Log {
  logger: Logger;
  output: Pick<LogOutput, 'writeNow' | 'dropped'>;
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
  writeNow: (line) => {
    process.stdout.write(line);
    return true;
  },
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
