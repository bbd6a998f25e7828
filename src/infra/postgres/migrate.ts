import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { fillAddressKeys } from './address-keys.ts';
import { MigrationError, reasonOf, MigrationStopped, DatabaseAway, isAway } from './migration-error.ts';
import { readMigrations, shippedMigrations } from './migration-files.ts';
import { connectionOf } from './connection.ts';
import { settle } from './session-settings.ts';
import { SettingsError } from './settings-error.ts';

// Writes the same table with the same values as Prisma's `migrate deploy`
// (docs/adr/0016-stores-and-migrations.md).

export { MigrationError, MigrationStopped } from './migration-error.ts';

/** Milliseconds to wait for another process that migrates the same database. */
const LOCK_TIMEOUT = 10 * 60_000;

/** `transaction_timeout` since PostgreSQL 17. */
const LIMITS = "FROM pg_settings WHERE name IN ('statement_timeout', 'transaction_timeout')";

const CREATE_TABLE = `CREATE TABLE _prisma_migrations (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  checksum VARCHAR(64) NOT NULL,
  finished_at TIMESTAMPTZ,
  migration_name VARCHAR(255) NOT NULL,
  logs TEXT,
  rolled_back_at TIMESTAMPTZ,
  started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
  applied_steps_count INTEGER NOT NULL DEFAULT 0
)`;
const TABLE = `SELECT WHERE to_regclass('_prisma_migrations') IS NOT NULL`;
const SCHEMA = `SELECT current_schema() AS name,
  EXISTS (SELECT FROM pg_tables WHERE schemaname = current_schema()) AS used`;
/** Not in a folder of an earlier version. */
const HAS_KEYS = `SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('users') AND attname = 'email_key' AND NOT attisdropped`;
const RECORDS = `SELECT migration_name AS name, checksum, logs, finished_at IS NOT NULL AS finished,
  rolled_back_at IS NOT NULL AS "rolledBack" FROM _prisma_migrations ORDER BY started_at`;
const START = 'INSERT INTO _prisma_migrations (id, migration_name, checksum) VALUES ($1, $2, $3)';
const FINISH = `UPDATE _prisma_migrations
  SET finished_at = now(), applied_steps_count = applied_steps_count + 1 WHERE id = $1`;
const FAIL = 'UPDATE _prisma_migrations SET logs = $2 WHERE id = $1';
const ROLL_BACK = `UPDATE _prisma_migrations SET rolled_back_at = now()
  WHERE migration_name = $1 AND finished_at IS NULL AND rolled_back_at IS NULL`;
/** One statement, so that a lost connection cannot leave it half done. */
const ROLL_BACK_AND_FINISH = `WITH failed AS (${ROLL_BACK})
  INSERT INTO _prisma_migrations (id, migration_name, checksum, logs, finished_at) VALUES ($2, $1, $3, '', now())`;

interface MigrateOptions extends WaitOptions {
  folder?: string;
}

/** How an operator resolved a migration that failed half-way. */
export type Resolution = 'rolled-back' | 'applied';

type Migration = { name: string; sql: string };
type MigrationRecord = {
  name: string;
  checksum: string;
  logs: string | null;
  finished: boolean;
  rolledBack: boolean;
};

/**
 * Applies the migrations of `folder` (default: those that this build ships) that the database lacks. Many processes may
 * run this at once: one applies, the others wait and find nothing to do.
 * @returns the names it applied, the names of applied migrations whose file has changed since, and how many addresses
 * got the form in which they are compared
 * @throws MigrationError: stopped, no connection, a failed migration (earlier or now), or a timeout waiting for the
 * lock
 */
export async function migrate(
  databaseUrl: string,
  { folder = shippedMigrations(), ...waitOptions }: MigrateOptions = {},
): Promise<{ applied: string[]; changed: string[]; keyed: number }> {
  return exclusively(databaseUrl, waitOptions, async (client) => {
    const records = (await readRecords(client)) ?? (await createTable(client));
    const failed = records.find(({ finished, rolledBack }) => !finished && !rolledBack);
    if (failed) throw new MigrationError(explain(failed));
    const recorded = new Map(records.filter((record) => !record.rolledBack).map((it) => [it.name, it]));
    const migrations = readMigrations(folder);
    const missing = migrations.filter(({ name }) => !recorded.has(name)).map(complete);
    for (const migration of missing) await apply(client, migration);
    // Not part of a migration: SQL cannot compute it, and replicas of 1.0.0 may still add such rows.
    const hasKeys = (await client.query(HAS_KEYS)).rowCount === 1;
    const keyed = hasKeys
      ? await fillAddressKeys(
          async <Row extends Record<string, unknown>>(sql: string, values: unknown[]) =>
            (await client.query<Row>(sql, values)).rows,
        )
      : 0;
    return {
      applied: missing.map(({ name }) => name),
      changed: migrations
        .filter(({ name, sql }) => recorded.has(name) && !matches(sql, recorded.get(name)?.checksum))
        .map(({ name }) => name),
      keyed,
    };
  });
}

/**
 * Records how an operator resolved the failed migration `name`: after 'rolled-back' the next `migrate` runs it again,
 * and 'applied' marks it as done.
 * @throws MigrationError if it did not fail, is unknown, or the database cannot be reached
 */
export async function resolveMigration(
  databaseUrl: string,
  name: string,
  resolution: Resolution,
  { folder = shippedMigrations(), ca }: { folder?: string; ca?: string | undefined } = {},
): Promise<void> {
  const migration = readMigrations(folder).find((one) => one.name === name);
  if (!migration) throw new MigrationError(`there is no migration ${name}`);
  const { sql } = complete(migration);
  await exclusively(databaseUrl, { ca }, async (client) => {
    const records = (await readRecords(client))?.filter((record) => record.name === name) ?? [];
    const isApplied = records.some(({ finished, rolledBack }) => finished && !rolledBack);
    if (records.length === 0 || isApplied) throw new MigrationError(`${name} has not failed here`);
    if (resolution === 'rolled-back') await client.query(ROLL_BACK, [name]);
    else await client.query(ROLL_BACK_AND_FINISH, [name, randomUUID(), checksumOf(sql)]);
  });
}

/** Runs `use` on a separate connection while this one holds the lock. */
async function exclusively<T>(
  databaseUrl: string,
  waitOptions: WaitOptions,
  use: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const holder = await connectWithRetries(databaseUrl, waitOptions);
  try {
    return await withMigrationLock(holder, LOCK_TIMEOUT, waitOptions.signal, async () => {
      const client = await connectTo(databaseUrl, waitOptions.ca);
      // A limit that suits the service would cut off a long migration. A pooler may keep the setting.
      await client.query(`SELECT set_config(name, '0', false) ${LIMITS}`);
      try {
        return await use(client);
      } finally {
        await client.query(`SELECT set_config(name, reset_val, false) ${LIMITS}`).catch(() => undefined);
        await client.end();
      }
    });
  } catch (error) {
    throw error instanceof MigrationError ? error : new MigrationError(`cannot migrate: ${reasonOf(error)}`);
  } finally {
    await holder.end();
  }
}

/** The records, oldest first; null before the first migration. */
async function readRecords(client: pg.Client): Promise<MigrationRecord[] | null> {
  if ((await client.query(TABLE)).rowCount === 0) return null;
  return (await client.query<MigrationRecord>(RECORDS)).rows;
}

async function createTable(client: pg.Client): Promise<[]> {
  const [schema] = (await client.query<{ name: string | null; used: boolean }>(SCHEMA)).rows;
  if (schema?.used) {
    throw new MigrationError(
      'cannot migrate: this database is not empty, and Latchkey’s migrations did not create its tables. ' +
        'Point DATABASE_URL at an empty database, or at one that Latchkey has migrated',
    );
  }
  if (schema?.name === null) await client.query('CREATE SCHEMA "public"');
  await client.query(CREATE_TABLE);
  return [];
}

/**
 * Sends the file without arguments: PostgreSQL then runs it as one transaction, or, if it consists of a CREATE INDEX
 * CONCURRENTLY, without one.
 */
async function apply(client: pg.Client, { name, sql }: Migration): Promise<void> {
  const id = randomUUID();
  await client.query(START, [id, name, checksumOf(sql)]);
  try {
    await client.query(sql);
    await client.query(FINISH, [id]);
  } catch (error) {
    const logs = error instanceof pg.DatabaseError ? `${error.message} (${error.code ?? ''})` : null;
    await recordFailure(client, id, logs).catch(() => undefined);
    throw new MigrationError(explain({ name, logs }, reasonOf(error)));
  }
}

/** Sends a ROLLBACK first: a file with its own BEGIN leaves a failed transaction open. */
async function recordFailure(client: pg.Client, id: string, logs: string | null): Promise<void> {
  await client.query('ROLLBACK');
  await client.query(FAIL, [id, logs]);
}

function complete({ name, sql }: { name: string; sql: string | undefined }): Migration {
  if (sql === undefined) throw new MigrationError(`the migration ${name} has no file migration.sql`);
  return { name, sql };
}

function checksumOf(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

/** Compares with both line endings, because Git may have changed them. */
function matches(sql = '', checksum = ''): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [unix, unix.replaceAll('\n', '\r\n')].map(checksumOf).includes(checksum);
}

/** @param reason the driver's error, if the database sent none. */
function explain({ name, logs }: Pick<MigrationRecord, 'name' | 'logs'>, reason?: string): string {
  const connectionLost = `The connection ended before the database reported a cause${reason === undefined ? '' : `: ${reason}`}.`;
  return [
    `the migration ${name} failed half-way, so nothing more is applied.`,
    logs ? `The database said:\n${logs.trim()}` : connectionLost,
    'Fix the cause, then record how the migration was resolved:',
    `  npx latchkey migrate --resolve-rolled-back ${name}   to run it again (first drop what it left: an INVALID index of CREATE INDEX CONCURRENTLY)`,
    `  npx latchkey migrate --resolve-applied ${name}       if you have completed it by hand`,
  ].join('\n');
}

/** The id of Prisma's own migration lock, so that Prisma's CLI and this code exclude each other. */
export const prismaLock = 72707369;

/** Milliseconds between two attempts to get the lock. */
const LOCK_RETRY = 150;

/**
 * Runs `use` while no other process migrates this database. `signal` ends the wait for the lock and does not affect
 * `use`.
 *
 * The lock belongs to a transaction: behind PgBouncer (transaction mode), a session lock would stay on the server
 * connection and block the next process. We poll for the lock: a waiting query holds a snapshot, and a CREATE INDEX
 * CONCURRENTLY of the other process would wait for that snapshot, so both would wait for ever.
 * @throws MigrationError after `timeout` milliseconds; MigrationStopped
 */
async function withMigrationLock<T>(
  client: pg.Client,
  timeout: number,
  signal: AbortSignal | undefined,
  use: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + timeout;
  while (!(await tryLock(client))) {
    if (Date.now() > deadline) {
      const waited = Math.round(timeout / 1000);
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

/** Timeout of one connection attempt, in milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** Milliseconds between two connection attempts. */
const CONNECT_RETRY = 500;

interface WaitOptions {
  /** DATABASE_CA. */
  ca?: string | undefined;
  /** Milliseconds to wait for a database that is not up yet. */
  timeout?: number;
  /** Called once for each new reason to wait. */
  onWait?: (reason: string) => void;
  /** Ends the wait. A migration that has begun still runs to its end: an operator would have to resolve half of one. */
  signal?: AbortSignal;
}

/**
 * Opens one connection.
 * @throws MigrationError with the server and the reason, without a password; DatabaseAway if a retry may help
 */
async function connectTo(databaseUrl: string, ca?: string): Promise<pg.Client> {
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
    const Failure = isAway(error) ? DatabaseAway : MigrationError;
    throw new Failure(`cannot connect to the database ${where}: ${reasonOf(error)}`);
  }
}

function makeClient(url: string, ca: string | undefined): pg.Client {
  try {
    return new pg.Client({ ...connectionOf(url, ca), connectionTimeoutMillis: CONNECT_TIMEOUT });
  } catch {
    // The driver's own error holds the URL, and with it the password.
    throw new MigrationError('DATABASE_URL is not a URL like postgresql://user:password@host:5432/database');
  }
}

/**
 * Opens a connection, and waits for a server that is not up yet: containers start in any order. Does not retry if the
 * server refuses us (wrong password, no such database).
 * @throws MigrationError; MigrationStopped if `signal` ended the wait
 */
async function connectWithRetries(
  databaseUrl: string,
  { timeout = 0, onWait, signal, ca }: WaitOptions,
): Promise<pg.Client> {
  const deadline = Date.now() + timeout;
  for (let told = ''; ;) {
    try {
      return await connectTo(databaseUrl, ca);
    } catch (error) {
      if (signal?.aborted) throw new MigrationStopped();
      if (!(error instanceof DatabaseAway) || Date.now() + CONNECT_RETRY > deadline) throw error;
      if (error.message !== told) onWait?.(error.message);
      told = error.message;
    }
    await sleep(CONNECT_RETRY, undefined, signal && { signal }).catch(() => undefined);
    if (signal?.aborted) throw new MigrationStopped();
  }
}
