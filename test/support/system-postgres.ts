import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { isRoot } from './embedded.ts';
import { freePort } from './free-port.ts';
import { withClient } from './postgres.ts';
import { startServerProcess } from './server-process.ts';
import { skipReason } from './environment.ts';

/** Where Debian keeps the programs of each version. */
const VERSIONS = '/usr/lib/postgresql';

/** The folder of the newest version's programs; null if PostgreSQL is not installed. */
function programs(): string | null {
  const versions = existsSync(VERSIONS) ? readdirSync(VERSIONS).map(Number) : [];
  const folder = versions.length > 0 ? join(VERSIONS, String(Math.max(...versions)), 'bin') : '';
  return existsSync(join(folder, 'initdb')) ? folder : null;
}

/** Why the tests that need a PostgreSQL with its client programs cannot run here, or false. */
export const systemPostgresMissing = skipReason(
  programs() === null ? 'PostgreSQL of Debian is not installed (apt-get install postgresql)' : null,
);

/**
 * Starts a PostgreSQL from the system's packages in `folder`/postgres. `pg_dump` of the same packages can read it, which
 * cannot read the embedded one's version. It ends with the test.
 * @returns the URL of its superuser, and the version's folder of programs.
 */
export async function startSystemPostgres(
  t: Test,
  folder: string,
): Promise<{ url: string; programs: string }> {
  const bin = programs();
  if (bin === null) throw new Error('PostgreSQL is not installed');
  const data = join(folder, 'postgres');
  const as = isRoot ? { uid: idOf('-u'), gid: idOf('-g') } : {};
  chmodSync(folder, 0o755);
  mkdirSync(data, { mode: 0o700 });
  if (as.uid !== undefined) chownSync(data, as.uid, as.gid);
  const password = randomUUID();
  const passwordFile = join(folder, 'password');
  writeFileSync(passwordFile, password);
  const options = ['-U', 'postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`, '--no-sync'];
  execFileSync(join(bin, 'initdb'), ['-D', data, ...options], { ...as, cwd: data, stdio: 'pipe' });
  const port = await freePort();
  const settings = [
    `port = ${port}`,
    "listen_addresses = '127.0.0.1'",
    `unix_socket_directories = '${data}'`,
  ];
  writeFileSync(join(data, 'postgresql.auto.conf'), `${settings.join('\n')}\n`);
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  await startServerProcess(t, [join(bin, 'postgres'), '-D', data], {
    ...as,
    cwd: data,
    // A smart shutdown (TERM) waits for clients.
    signal: 'INT',
    answers: () => withClient(url, () => Promise.resolve(true)).catch(() => false),
  });
  return { url, programs: bin };
}

function idOf(option: '-u' | '-g'): number {
  return Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
}
