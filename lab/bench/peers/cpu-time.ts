import { readFileSync } from 'node:fs';

/** USER_HZ of Linux. */
const TICKS_PER_SECOND = 100;

/**
 * The CPU time of a process with threads that have ended, in seconds; 0 if the system does not report it. A server with a
 * thread for each connection ends them with the connections.
 */
export function processCpuSeconds(pid: number): number {
  try {
    return cpuSecondsIn(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return 0;
  }
}

/** Reads utime and stime (proc(5)). The name before them may contain spaces and brackets. */
export function cpuSecondsIn(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}
