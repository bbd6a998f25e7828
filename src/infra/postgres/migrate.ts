import { createHash, randomUUID } from 'node:crypto';
import pg from 'pg';
import { fillAddressKeys } from './address-keys.ts';
import { connectWithRetries, connectTo, type WaitOptions } from './migration-connection.ts';
import { MigrationError, reasonOf } from './migration-error.ts';
import { readMigrations, shippedMigrations } from './migration-files.ts';
import { withMigrationLock } from './migration-lock.ts';

// Writes the same table with the same values as Prisma's `migrate deploy`
// (docs/adr/0027-migrations-without-an-engine.md).

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
