import { pino, type Logger } from 'pino';

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
  return pino(base, pino.destination({ sync: true }));
}

function isInstalled(name: string): boolean {
  try {
    import.meta.resolve(name);
    return true;
  } catch {
    return false;
  }
}
