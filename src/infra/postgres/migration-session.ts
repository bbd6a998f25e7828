import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { connectionOf } from './connection.ts';
import { MigrationError, MigrationStopped, PassingFailure, passingOf, reasonOf } from './migration-error.ts';
import { settle } from './session-settings.ts';
import { SettingsError } from './settings-error.ts';

/** The id of Prisma's own migration lock, so that Prisma's CLI and this code exclude each other. */
export const prismaLock = 72707369;

/** Milliseconds to wait for another process that migrates the same database. */
const LOCK_TIMEOUT = 10 * 60_000;

/** Milliseconds between two attempts to get the lock. */
const LOCK_RETRY = 150;

/** Timeout of one connection attempt, in milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** One connection holds the lock and says nothing while the other one builds an index, and a firewall may forget both. */
const KEEPALIVE = { keepAlive: true, keepAliveInitialDelayMillis: 60_000 };

/**
 * Milliseconds before the next attempt. While a file waits for a table, up to its `lock_timeout`, everybody else's
 * statements on that table wait behind it, so they get a longer time in between.
 */
const RETRY = { away: 500, refused: 5000 };

/** `transaction_timeout` since PostgreSQL 17. A file that keeps others waiting sets a `lock_timeout` of its own. */
const LIMITS = "FROM pg_settings WHERE name IN ('statement_timeout', 'lock_timeout', 'transaction_timeout')";

export interface WaitOptions {
  /** DATABASE_CA. */
  ca?: string | undefined;
  /** Milliseconds to wait for a database that is not up, and for what is in the way of a migration: of each one. */
  timeout?: number;
  /** Called once for each new reason to wait, and before each retry of what was refused. */
  onWait?: (reason: string) => void;
  /** Ends the wait. A migration that has begun still runs to its end. */
  signal?: AbortSignal | undefined;
}

/** `advance` says that the wait, if there is one again, is for something else. */
type Use<T> = (client: pg.Client, advance: () => void) => Promise<T>;

/**
 * Runs `use` while no other process migrates this database, and from the start again if it rejects with what passes by
 * itself.
 * @throws MigrationError; MigrationStopped if `signal` ended the wait
 */
export async function exclusively<T>(
  databaseUrl: string,
  { ca, timeout = 0, onWait, signal }: WaitOptions,
  use: Use<T>,
): Promise<T> {
  // Set by the first thing to wait for: what runs before it, such as an index, takes nothing off the time.
  let deadline = Infinity;
  for (let told = ''; ;) {
    let pause: number;
    try {
      return await onceExclusively(databaseUrl, ca, signal, (client) =>
        use(client, () => (deadline = Infinity)),
      );
    } catch (error) {
      if (!(error instanceof PassingFailure)) throw error;
      if (signal?.aborted) throw new MigrationStopped();
      pause = RETRY[error.kind];
      deadline = Math.min(deadline, performance.now() + timeout);
      const left = deadline - performance.now() - pause;
      if (left < 0) throw error;
      if (error.kind === 'refused') onWait?.(`${error.message} (for ${Math.ceil(left / 1000)} s more)`);
      else if (error.message !== told) onWait?.(error.message);
      told = error.message;
    }
    await sleep(pause, undefined, signal && { signal }).catch(() => undefined);
    if (signal?.aborted) throw new MigrationStopped();
  }
}

/** Runs `use` on a separate connection while this one holds the lock. */
async function onceExclusively<T>(
  databaseUrl: string,
  ca: string | undefined,
  signal: AbortSignal | undefined,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const holder = await connectTo(databaseUrl, ca);
  try {
    return await withMigrationLock(holder, signal, async () => {
      const client = await connectTo(databaseUrl, ca);
      try {
        // A limit that suits the service would cut off a long migration. A pooler may keep the setting.
        await client.query(`SELECT set_config(name, '0', false) ${LIMITS}`);
        return await use(client);
      } finally {
        await client.query(`SELECT set_config(name, reset_val, false) ${LIMITS}`).catch(() => undefined);
        await client.end();
      }
    });
  } catch (error) {
    if (error instanceof MigrationError) throw error;
    const passing = passingOf(error);
    const message = `cannot migrate: ${reasonOf(error)}`;
    throw passing === null ? new MigrationError(message) : new PassingFailure(passing, message);
  } finally {
    await holder.end();
  }
}

/**
 * Runs `use` while this connection holds the lock. `signal` ends the wait for the lock and does not affect `use`.
 *
 * The lock belongs to a transaction: behind PgBouncer (transaction mode), a session lock would stay on the server
 * connection and block the next process. We poll for the lock: a waiting query holds a snapshot, and a CREATE INDEX
 * CONCURRENTLY of the other process would wait for that snapshot, so both would wait for ever.
 */
async function withMigrationLock<T>(
  client: pg.Client,
  signal: AbortSignal | undefined,
  use: () => Promise<T>,
): Promise<T> {
  const deadline = performance.now() + LOCK_TIMEOUT;
  while (!(await tryLock(client))) {
    if (performance.now() > deadline) {
      const waited = Math.round(LOCK_TIMEOUT / 1000);
      throw new MigrationError(
        `another process has been migrating this database for ${waited} s: try again when it is done`,
      );
    }
    if (signal?.aborted) throw new MigrationStopped();
    await sleep(LOCK_RETRY);
  }
  try {
    if (signal?.aborted) throw new MigrationStopped();
    return await use();
  } finally {
    // The connection may be lost by now, and the lock with it.
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

async function tryLock(client: pg.Client): Promise<boolean> {
  // In a stricter default isolation, the snapshot would block CREATE INDEX CONCURRENTLY for ever.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  // A server that ends idle or long transactions would release the lock during a long migration.
  await client.query(`SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`);
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_xact_lock(${prismaLock}) AS locked`,
  );
  if (rows[0]?.locked === true) return true;
  await client.query('ROLLBACK');
  return false;
}

/**
 * Opens one connection.
 * @throws MigrationError with the server and the reason, without a password; PassingFailure if a retry may help
 */
async function connectTo(databaseUrl: string, ca: string | undefined): Promise<pg.Client> {
  const client = makeClient(databaseUrl, ca);
  // Without a listener, a connection lost between two queries would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await settle(client);
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    if (error instanceof SettingsError) throw new MigrationError(error.message);
    const where = `${client.database ?? ''} at ${client.host}:${client.port}`;
    const message = `cannot connect to the database ${where}: ${reasonOf(error)}`;
    throw passingOf(error) === null ? new MigrationError(message) : new PassingFailure('away', message);
  }
}

function makeClient(url: string, ca: string | undefined): pg.Client {
  try {
    return new pg.Client({
      ...connectionOf(url, ca),
      connectionTimeoutMillis: CONNECT_TIMEOUT,
      ...KEEPALIVE,
    });
  } catch {
    // The driver's own error holds the URL, and with it the password.
    throw new MigrationError('DATABASE_URL is not a URL like postgresql://user:password@host:5432/database');
  }
}
