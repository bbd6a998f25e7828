import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { isRoot, unprivileged } from './embedded.ts';
import { bareEnvironment } from './environment.ts';
import { freePort } from './free-port.ts';
import { answers } from './postgres.ts';
import { startServerProcess, type ServerProcess } from './server-process.ts';
import { toolsMissing } from './tools.ts';

// PostgreSQL from the system's packages. Unlike the embedded one, it comes with pg_basebackup, pg_dump and pg_restore.

/** Why the tests that need it cannot run here, or false. */
export const systemPostgresMissing = toolsMissing('bash', 'env', 'pg_ctlcluster');

const PROGRAMS = '/usr/lib/postgresql';

/** PostgreSQL refuses to run as root. */
const account = isRoot ? { uid: unprivileged, gid: unprivileged } : {};

/** Debian keeps the programs of each version in a folder outside PATH. */
function program(name: string): string {
  const versions = existsSync(PROGRAMS) ? readdirSync(PROGRAMS).sort((a, b) => Number(b) - Number(a)) : [];
  const found = versions
    .map((version) => join(PROGRAMS, version, 'bin', name))
    .find((path) => existsSync(path));
  if (found === undefined) throw new Error(`no ${name} below ${PROGRAMS} (apt-get install postgresql)`);
  return found;
}

/** Runs a program of PostgreSQL, such as `initdb`, as the user of the server. */
export async function runPostgresProgram(name: string, ...args: string[]): Promise<void> {
  await promisify(execFile)('env', [program(name), ...args], {
    ...account,
    env: bareEnvironment(),
    cwd: '/',
  });
}

/** An empty folder for the data of a server. */
export function makeDataFolder(folder: string): string {
  const data = join(folder, 'postgres');
  mkdirSync(data, { mode: 0o700 });
  if (isRoot) for (const path of [folder, data]) chownSync(path, unprivileged, unprivileged);
  return data;
}

/** Starts a server on an initialised folder. @param url of a database that exists. @param settings as `name=value`. */
export function startPostgresProcess(
  t: Test,
  { data, url, settings }: { data: string; url: string; settings: readonly string[] },
): Promise<ServerProcess> {
  const { hostname, port } = new URL(url);
  // Bash starts it with SIGQUIT ignored.
  const command = ['env', '--default-signal=QUIT', program('postgres')] as const;
  const own = ['-D', data, '-h', hostname, '-p', port, '-c', 'unix_socket_directories='];
  return startServerProcess(t, [...command, ...own, ...settings.flatMap((each) => ['-c', each])], {
    ...account,
    cwd: data,
    // An immediate shutdown: it does not wait for clients.
    signal: 'QUIT',
    answers: () => answers(url),
  });
}

/** Starts a server with its data in `folder`/postgres. @returns the URL of its superuser `postgres`. */
export async function startSystemPostgres(t: Test, folder: string): Promise<{ url: string }> {
  const data = makeDataFolder(folder);
  const password = randomUUID();
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password);
  const authentication = ['--auth=scram-sha-256', `--pwfile=${passwordFile}`];
  await runPostgresProgram('initdb', '-D', data, '-U', 'postgres', '--no-sync', ...authentication);
  const url = `postgres://postgres:${password}@127.0.0.1:${await freePort()}/postgres`;
  await startPostgresProcess(t, { data, url, settings: [] });
  return { url };
}
