/** Writes a line: JSON with `level`, `time`, `msg` and the fields. */
export type Log = (level: 'info' | 'warn' | 'error', msg: string, fields?: object) => unknown;

export function makeLog(write: (line: string) => unknown): Log {
  return (level, msg, fields) =>
    write(`${JSON.stringify({ level, time: new Date().toISOString(), msg, ...fields })}\n`);
}

/** The most lines a second: an attacker decides how many requests are refused. */
const MOST = 10;

/** Passes on at most ten lines a second. The next line says as `omitted` how many were left out before it. */
export function limited(log: Log, now: () => number = () => performance.now()): Log {
  let [since, written, omitted] = [-Infinity, 0, 0];
  return (level, msg, fields) => {
    if (now() - since >= 1000) [since, written] = [now(), 0];
    if (written >= MOST) {
      omitted++;
      return;
    }
    written++;
    log(level, msg, omitted === 0 ? fields : { ...fields, omitted });
    omitted = 0;
  };
}
