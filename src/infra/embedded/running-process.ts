import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/**
 * When the process `pid` started, as an opaque text; undefined if there is no such process.
 * A pid alone does not identify a process: after a reboot or a container restart, another process may have it.
 */
export function startOf(pid: number): string | undefined {
  if (process.platform === 'linux') return linuxStart(pid);
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return undefined;
  }
  if (process.platform === 'win32') return 'running';
  try {
    return execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], { encoding: 'utf8' }).trim() || undefined;
  } catch {
    return undefined;
  }
}

function linuxStart(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses may contain spaces, so count fields after it. In proc_pid_stat(5) the state is field 3,
    // and the start in clock ticks since boot is field 22.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state = '', ticks = ''] = [fields[0], fields[19]];
    // A zombie has ended; only its parent has not waited for it yet.
    if (state === 'Z' || state === 'X') return undefined;
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${ticks}`;
  } catch {
    return undefined;
  }
}
