import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { settle } from '../postgres/session-settings.ts';
import { serverAccount } from './server-account.ts';
import { findBinaries } from './binaries.ts';
import { openCluster } from './cluster.ts';
import { lockDataFolder } from './data-folder-lock.ts';
import { DataFolderInUseError, EmbeddedDatabaseError, messageOf } from './embedded-database-error.ts';
import { stopLeftovers } from './leftovers.ts';
import { startServer, type Server, type ServerLog } from './server.ts';

export { EmbeddedDatabaseError } from './embedded-database-error.ts';

export type EmbeddedPostgresOptions = {
  /** The folder for data, password and lock; created if it is missing. */
  dataDir: string;
  log: ServerLog;
  /** Called with the reason if the server ends unexpectedly. */
  onExit?: (reason: string) => void;
};

/** A running server. `url` contains the password. `stop` resolves when the server is down, and may be repeated. */
export type EmbeddedPostgres = { url: string; stop: () => Promise<void> };

const database = 'latchkey';

/**
 * Starts a real PostgreSQL for development and trials: data in `dataDir`, reachable on 127.0.0.1 only. Only one process
 * at a time can use a data folder.
 * Rejects with EmbeddedDatabaseError: folder in use, system not supported, or PostgreSQL's reason.
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = resolve(options.dataDir);
  try {
    return await start(dataDir, options);
  } catch (error) {
    if (error instanceof EmbeddedDatabaseError) throw error;
    throw new EmbeddedDatabaseError(`cannot start the embedded database in ${dataDir}: ${messageOf(error)}`);
  }
}

/**
 * For commands: uses the server that another process runs in this data folder, or starts one.
 * `stop` does not stop the server of another process.
 * Rejects with EmbeddedDatabaseError.
 */
export async function joinEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  try {
    return await startEmbeddedPostgres(options);
  } catch (error) {
    if (!(error instanceof DataFolderInUseError)) throw error;
    const { port, password } = await findRunningServer(resolve(options.dataDir));
    return { url: urlOf(port, password, database), stop: () => Promise.resolve() };
  }
}

function urlOf(port: number, password: string, name: string): string {
  return `postgresql://postgres:${password}@127.0.0.1:${port}/${name}`;
}

async function start(dataDir: string, options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = lockDataFolder(dataDir);
  let server: Server | undefined;
  try {
    const present = join(dataDir, 'postgres');
    if (existsSync(present) && (await stopLeftovers(present)) > 0) {
      options.log.warn('stopped a PostgreSQL that a killed process had left running');
    }
    const account = serverAccount(dataDir);
    const binaries = await findBinaries(account);
    const { folder, password } = await openCluster(dataDir, binaries, account);
    const onExit = options.onExit ?? (() => undefined);
    server = await startServer({ folder, binaries, account, log: options.log, onExit });
    await ensureDatabase(urlOf(server.port, password, 'postgres'));
    return { url: urlOf(server.port, password, database), stop: stopOnce(server, lock.release) };
  } catch (error) {
    await server?.stop();
    lock.release();
    throw error;
  }
}

function stopOnce(server: Server, release: () => void): () => Promise<void> {
  let stopped: Promise<void> | undefined;
  // Release the lock last, so that the next holder finds no running server.
  return () => (stopped ??= server.stop().then(release));
}

/** Runs at every start: the process that created the cluster may have been killed before this step. */
async function ensureDatabase(url: string): Promise<void> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  try {
    await settle(client);
    const { rows } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database]);
    if (rows.length === 0) await client.query(`CREATE DATABASE ${database}`);
  } finally {
    await client.end();
  }
}

/** Milliseconds to wait for a starting server, and between two reads of its pid file. */
const LOOKUP_TIMEOUT = 30_000;
const INTERVAL = 100;

/** The address of a server that another process runs. */
interface RunningServer {
  port: number;
  password: string;
}

/**
 * Waits until the server of this data folder is ready, and reads its port from `postmaster.pid`.
 * Rejects with EmbeddedDatabaseError.
 */
export async function findRunningServer(dataDir: string, timeout = LOOKUP_TIMEOUT): Promise<RunningServer> {
  const deadline = performance.now() + timeout;
  for (;;) {
    const port = readyPort(read(join(dataDir, 'postgres', 'postmaster.pid')));
    const password = read(join(dataDir, 'postgres.password')).trim();
    if (port !== null && password !== '') return { port, password };
    if (performance.now() > deadline)
      throw new EmbeddedDatabaseError(
        `another process runs the embedded database in ${dataDir}, but it cannot be reached: stop that process, or run this command as its user`,
      );
    await sleep(INTERVAL);
  }
}

/** Line 4 of `postmaster.pid` is the port, line 8 the state. @returns null before the server is ready. */
export function readyPort(text: string): number | null {
  const lines = text.split('\n').map((line) => line.trim());
  const port = Number(lines[3]);
  return lines[7] === 'ready' && Number.isInteger(port) && port > 0 ? port : null;
}

/** @returns '' if the file is missing or this user may not read it. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
