import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { Test } from 'tap';
import { isRoot, nobody } from './embedded.ts';
import { freePort } from './redis-server.ts';
import { until } from './until.ts';

/** A PgBouncer of the test's own in transaction mode; it ends with the test, and also when the test is killed. */
export interface PgBouncer {
  /** The database, by way of it. */
  url: string;
  /** Ends it by SIGKILL, with every connection to it. */
  kill(): Promise<void>;
  start(): Promise<void>;
}

/** Ends what it started when its standard input closes, which it does however the test ends. */
const GUARD = '"$@" & cat >/dev/null; exec 2>/dev/null; kill -9 %1; wait';

/** @param poolSize connections to the database. */
export async function startPgBouncer(t: Test, database: string, poolSize: number): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-pgbouncer-'));
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
  `;
  writeFileSync(join(folder, 'pgbouncer.ini'), config.replace(/^ +/gm, ''));
  return runPgBouncer(t, folder, `postgres://${username}@127.0.0.1:${port}/${name}`);
}

/**
 * One that runs by `pgbouncer.ini` in a folder of its own, which goes with it.
 * @param url where it will answer.
 */
export async function runPgBouncer(t: Test, folder: string, url: string): Promise<PgBouncer> {
  const file = join(folder, 'pgbouncer.ini');
  // It refuses to run as root.
  const account = isRoot ? { uid: nobody, gid: nobody } : {};
  if (isRoot)
    for (const path of [folder, ...readdirSync(folder).map((name) => join(folder, name))])
      chownSync(path, nobody, nobody);
  let release = (): Promise<unknown> => Promise.resolve();

  const start = async () => {
    const guard = spawn('bash', ['-c', GUARD, 'guard', 'pgbouncer', '--quiet', file], {
      ...account,
      cwd: folder,
      stdio: ['pipe', 'ignore', 'inherit'],
    });
    const ended = once(guard, 'exit');
    release = async () => {
      guard.stdin.end();
      await ended;
    };
    await until(() => answers(url));
  };
  t.teardown(async () => {
    await release();
    rmSync(folder, { recursive: true, force: true });
  });
  await start();
  const kill = async () => {
    await release();
  };
  return { url, start, kill };
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
