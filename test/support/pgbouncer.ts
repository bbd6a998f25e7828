import { chownSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { isRoot, unprivileged } from './embedded.ts';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess, type ServerProcess } from './server-process.ts';

/** A PgBouncer in transaction mode. It ends with the test, even if the test is killed. */
export interface PgBouncer {
  /** The URL of the database through PgBouncer. */
  url: string;
  /** Kills it by SIGKILL. All connections to it end. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/**
 * @param poolSize connections to the database.
 * @param timeout the clients' DATABASE_TIMEOUT, in milliseconds.
 */
export async function startPgBouncer(
  t: Test,
  database: string,
  poolSize: number,
  timeout = 10_000,
): Promise<PgBouncer> {
  const folder = testFolder(t);
  const port = await freePort();
  const { hostname, port: target, pathname, username, password } = new URL(database);
  const name = pathname.slice(1);
  const login = password === '' ? '' : ` password=${decodeURIComponent(password)}`;
  const config = `
    [databases]
    ${name} = host=${hostname} port=${target || '5432'} dbname=${name} user=${username}${login}
    [pgbouncer]
    listen_addr = 127.0.0.1
    listen_port = ${port}
    unix_socket_dir =
    auth_type = any
    pool_mode = transaction
    default_pool_size = ${poolSize}
    max_client_conn = 100
    ; As docs/operating.md says.
    query_wait_timeout = ${timeout / 1000}
    server_connect_timeout = ${timeout / 1000}
    server_login_retry = 1
  `;
  writeFileSync(join(folder, 'pgbouncer.ini'), config.replace(/^ +/gm, ''));
  return runPgBouncer(t, folder, `postgres://${username}@127.0.0.1:${port}/${name}`);
}

/**
 * Starts PgBouncer with the `pgbouncer.ini` of a folder.
 * @param url where it will answer.
 */
export async function runPgBouncer(t: Test, folder: string, url: string): Promise<PgBouncer> {
  const file = join(folder, 'pgbouncer.ini');
  // It refuses to run as root.
  const account = isRoot ? { uid: unprivileged, gid: unprivileged } : {};
  if (isRoot)
    for (const path of [folder, ...readdirSync(folder).map((name) => join(folder, name))])
      chownSync(path, unprivileged, unprivileged);
  const run = () =>
    startServerProcess(t, ['pgbouncer', '--quiet', file], {
      ...account,
      cwd: folder,
      signal: 'KILL',
      answers: () => answers(url),
    });
  let running: ServerProcess = await run();
  return {
    url,
    kill: () => running.end(),
    async start() {
      running = await run();
    },
  };
}

async function answers(url: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 1000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    await client.query('SELECT 1');
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}
