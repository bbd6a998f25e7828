import { createHash, randomUUID } from 'node:crypto';
import type pg from 'pg';
import { MigrationError } from './migration-error.ts';

// The same table with the same values as that of Prisma's `migrate deploy` (docs/adr/0016-stores-and-migrations.md).

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
const RECORDS = `SELECT migration_name AS name, checksum, logs, finished_at IS NOT NULL AS finished,
  rolled_back_at IS NOT NULL AS "rolledBack" FROM _prisma_migrations ORDER BY started_at`;
const FINISHED = `SELECT FROM _prisma_migrations
  WHERE migration_name = $1 AND finished_at IS NOT NULL AND rolled_back_at IS NULL`;
const ROLL_BACK = `UPDATE _prisma_migrations SET rolled_back_at = now()
  WHERE migration_name = $1 AND finished_at IS NULL AND rolled_back_at IS NULL`;
/** What an earlier run has left counts as rolled back. One statement, so that a lost connection cannot halve it. */
const INSTEAD = `WITH failed AS (${ROLL_BACK}) INSERT INTO _prisma_migrations`;
const START = `${INSTEAD} (migration_name, id, checksum, started_at)
  VALUES ($1, $2, $3, clock_timestamp())`;
const FINISH = `UPDATE _prisma_migrations
  SET finished_at = clock_timestamp(), applied_steps_count = applied_steps_count + 1 WHERE id = $1`;
const SETTLE = `${INSTEAD} (migration_name, id, checksum, logs, finished_at) VALUES ($1, $2, $3, '', now())`;

export type Migration = { name: string; sql: string };

export type MigrationRecord = {
  name: string;
  checksum: string;
  logs: string | null;
  finished: boolean;
  rolledBack: boolean;
};

/** The records, oldest first; null before the first migration. */
export async function readRecords(client: pg.Client): Promise<MigrationRecord[] | null> {
  if ((await client.query(TABLE)).rowCount === 0) return null;
  return (await client.query<MigrationRecord>(RECORDS)).rows;
}

export async function createTable(client: pg.Client): Promise<[]> {
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

/** @returns the record's id. */
export async function recordStart(client: pg.Client, { name, sql }: Migration): Promise<string> {
  const id = randomUUID();
  await client.query(START, [name, id, checksumOf(sql)]);
  return id;
}

export async function recordEnd(client: pg.Client, id: string): Promise<void> {
  await client.query(FINISH, [id]);
}

/** Records that what was started is applied. */
export async function recordApplied(client: pg.Client, { name, sql }: Migration): Promise<void> {
  await client.query(SETTLE, [name, randomUUID(), checksumOf(sql)]);
}

/** Records that what was started is to run again. */
export async function recordRolledBack(client: pg.Client, name: string): Promise<void> {
  await client.query(ROLL_BACK, [name]);
}

export async function isFinished(client: pg.Client, name: string): Promise<boolean> {
  return (await client.query(FINISHED, [name])).rowCount !== 0;
}

function checksumOf(sql: string): string {
  return createHash('sha256').update(sql).digest('hex');
}

/** Compares with both line endings, because Git may have changed them. */
export function matches(sql = '', checksum = ''): boolean {
  const unix = sql.replaceAll('\r\n', '\n');
  return [unix, unix.replaceAll('\n', '\r\n')].map(checksumOf).includes(checksum);
}
