import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const HOSTS = { PORT: 'HOST', OPS_PORT: 'OPS_HOST' } as const;

/** Why a server cannot listen, with the setting to change and, if it can be known, the process that has the port. */
export function whyNoPort(setting: keyof typeof HOSTS, port: number, host: string, error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (code === 'EADDRNOTAVAIL') return `${HOSTS[setting]}: this machine has no address ${host}`;
  if (code !== 'EADDRINUSE') return `${setting}: cannot listen on ${port}: ${message}`;
  const holder = holderOf(port);
  if (holder?.pid === String(process.pid))
    return `PORT and OPS_PORT are both ${port}: set one to another port`;
  const by = holder === null ? '' : ` by process ${holder.pid} (${holder.name})`;
  const find = holder === null ? ` (\`ss -ltnp\` or \`lsof -i :${port}\` shows by which process)` : '';
  return `${setting}: port ${port} is in use${by}${find}: stop that process, or set ${setting} to another port`;
}

/**
 * The id and name of the process that listens on a TCP port. Linux only, and only a process that this user may inspect.
 */
function holderOf(port: number): { pid: string; name: string } | null {
  const sockets = ['tcp', 'tcp6'].flatMap((table) => listening(`/proc/net/${table}`, port));
  const holds = (pid: string) =>
    orNone(() => readdirSync(`/proc/${pid}/fd`))?.some((fd) => {
      const link = orNone(() => readlinkSync(`/proc/${pid}/fd/${fd}`));
      return link !== null && sockets.includes(link);
    });
  const pid = orNone(() => readdirSync('/proc'))?.find((name) => /^\d+$/.test(name) && holds(name));
  const name = pid && orNone(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim());
  return pid && name ? { pid, name } : null;
}

/** The sockets of a table that listen on the port, as the links in /proc/PID/fd name them. */
function listening(table: string, port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  return (orNone(() => readFileSync(table, 'utf8')) ?? '')
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .filter(([, local, , state]) => local?.endsWith(`:${hex}`) && state === '0A')
    .map((fields) => `socket:[${fields[9] ?? ''}]`);
}

/** null on another system, for another user's process, and for one that has just ended. */
function orNone<Found>(read: () => Found): Found | null {
  try {
    return read();
  } catch {
    return null;
  }
}
