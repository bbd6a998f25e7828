import type { Clock } from '../../domain/clock.ts';

export type LogLine = (fields: object, message: string) => void;

/** Milliseconds between two lines. */
const INTERVAL = 1000;

/** Writes at most one line a second: a caller decides how often a refusal happens. The metrics count the others. */
export function makeCalmLog(log: { warn: LogLine }, clock: Pick<Clock, 'monotonic'>): LogLine {
  let written = -Infinity;
  return (fields, message) => {
    if (clock.monotonic() - written < INTERVAL) return;
    written = clock.monotonic();
    log.warn(fields, message);
  };
}
