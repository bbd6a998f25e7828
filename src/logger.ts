import { pino, type Logger } from 'pino';
import type { Tracer } from './domain/tracing/tracer.ts';

/**
 * Lines are gathered and written together: a write for each costs a tenth of a core under load. They are written when
 * there is a block of them, or after this long (milliseconds), and whatever is left when the process ends, also by an
 * error that nobody caught. Only kill -9 can lose the last moment's.
 */
const BLOCK_BYTES = 4096;
const FLUSH_INTERVAL = 100;

/**
 * JSON lines; on a terminal readable ones, where pino-pretty is installed.
 * @param level LOG_LEVEL.
 * @param tracer where there is one, every line that belongs to a request names its trace.
 */
export function makeLogger(level: string, isTerminal: boolean, tracer?: Tracer): Logger {
  const base = {
    level,
    base: null,
    timestamp: pino.stdTimeFunctions.isoTime,
    ...(tracer && { mixin: () => traceOf(tracer) }),
  };
  if (isTerminal && isInstalled('pino-pretty')) {
    return pino({
      ...base,
      transport: { target: 'pino-pretty', options: { translateTime: 'SYS:HH:MM:ss.l' } },
    });
  }
  // Synchronous, so that no write is under way when the process ends.
  const output = pino.destination({ sync: true, minLength: BLOCK_BYTES, periodicFlush: FLUSH_INTERVAL });
  process.once('exit', () => {
    output.flushSync();
  });
  return pino(base, output);
}

/** By the names that OpenTelemetry gives them in logs that are not its own. */
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
