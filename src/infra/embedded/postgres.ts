import { mkdirSync } from 'node:fs';
import { resolve } from 'node:path';
import pg from 'pg';
import { serverAccount } from './account.ts';
import { findBinaries } from './binaries.ts';
import { openCluster } from './cluster.ts';
import { lockDataFolder } from './data-folder-lock.ts';
import { EmbeddedDatabaseError, messageOf } from './embedded-database-error.ts';
import { stopLeftovers } from './leftovers.ts';
import { startServer, type Server, type ServerLog } from './server.ts';

export { EmbeddedDatabaseError } from './embedded-database-error.ts';

export type EmbeddedPostgresOptions = {
  /** The folder for the data, its password and its lock; made if it is missing. */
  dataDir: string;
  log: ServerLog;
  /** Called with the reason if the server ends without having been stopped. */
  onExit?: (reason: string) => void;
};

/** A running server. `url` holds the password. `stop` may be called again, and resolves when it is down. */
export type EmbeddedPostgres = { url: string; stop: () => Promise<void> };

const database = 'latchkey';

/**
 * Starts a PostgreSQL of our own for development and trials: real programs, data in `dataDir`, reachable on
 * 127.0.0.1 only. One process at a time may have a data folder.
 * Rejects with EmbeddedDatabaseError: in use, not for this system, or PostgreSQL's reason.
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

async function start(dataDir: string, options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const account = serverAccount(dataDir);
  mkdirSync(dataDir, { recursive: true, mode: 0o700 });
  const lock = lockDataFolder(dataDir);
  let server: Server | undefined;
  try {
    const binaries = await findBinaries(account);
    const { folder, password } = await openCluster(dataDir, binaries, account);
    if ((await stopLeftovers(folder)) > 0) {
      options.log.warn('stopped the PostgreSQL that an earlier, killed process had left running');
    }
    const onExit = options.onExit ?? (() => undefined);
    server = await startServer({ folder, binaries, account, log: options.log, onExit });
    const url = `postgresql://postgres:${password}@127.0.0.1:${server.port}`;
    await ensureDatabase(`${url}/postgres`);
    return { url: `${url}/${database}`, stop: stopOnce(server, lock.release) };
  } catch (error) {
    await server?.stop();
    lock.release();
    throw error;
  }
}

function stopOnce(server: Server, release: () => void): () => Promise<void> {
  let stopped: Promise<void> | undefined;
  // Released last: whoever waits for the folder finds no server in it.
  return () => (stopped ??= server.stop().then(release));
}

/** At every start, since the one that made the cluster may have been killed before it came to this. */
async function ensureDatabase(url: string): Promise<void> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [database]);
    if (rows.length === 0) await client.query(`CREATE DATABASE ${database}`);
  } finally {
    await client.end();
  }
}
