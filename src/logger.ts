import { pino, type Logger } from 'pino';

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
 */
export function makeLogger(level: string, isTerminal: boolean): Logger {
  const base = { level, base: null, timestamp: pino.stdTimeFunctions.isoTime };
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

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name);
    return true;
  } catch {
    return false;
  }
}
