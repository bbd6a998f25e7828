import type pg from 'pg';
import {
  describe,
  isRefusal,
  MigrationError,
  PassingFailure,
  passingOf,
  reasonOf,
} from './migration-error.ts';
import {
  isFinished,
  recordApplied,
  recordEnd,
  recordFailure,
  recordStart,
  type Migration,
  type MigrationRecord,
} from './migration-records.ts';
import { BEGIN } from './session-settings.ts';

/** The one statement that cannot be in a transaction, and so can be half-way. */
const CONCURRENTLY =
  /^(?<verb>CREATE(?: UNIQUE)? INDEX|DROP INDEX) CONCURRENTLY (?:IF (?:NOT )?EXISTS )?"?(?<index>\w+)"?[^;]*;?$/i;

/**
 * A transaction of which an earlier run has lost sight, perhaps while its COMMIT was on the way, holds this lock until it
 * has ended. What it recorded is known only then. Readers are not in the way.
 */
const ENTER = `${BEGIN}; SET LOCAL lock_timeout = '2s';
  LOCK TABLE _prisma_migrations IN SHARE ROW EXCLUSIVE MODE; SET LOCAL lock_timeout TO DEFAULT`;

/**
 * Applies a migration, or what an earlier run has left of it.
 * @throws PassingFailure, with nothing left that a retry cannot go on from; MigrationError, with a record that stops
 * later runs until an operator has settled it
 */
export async function applyMigration(client: pg.Client, migration: Migration, isRepeated: boolean) {
  const concurrent = concurrentIndex(migration.sql);
  if (concurrent) await applyAlone(client, migration, concurrent, isRepeated);
  else await applyInTransaction(client, migration);
}

/**
 * Whether the next run may repeat what a record says was started. 1.0.0 ran a file in one transaction, so what was
 * refused has left nothing; it recorded a start apart from it, so without an answer nobody knows whether the file was
 * applied. An index shows how far it got.
 */
export function mayRepeat({ logs }: MigrationRecord, sql: string): boolean {
  return logs === null ? concurrentIndex(sql) !== null : isRefusal(logs);
}

/** The file and its record are one transaction. */
async function applyInTransaction(client: pg.Client, migration: Migration): Promise<void> {
  try {
    await client.query(ENTER);
    if (await isFinished(client, migration.name)) {
      await client.query('ROLLBACK');
      return;
    }
    const id = await recordStart(client, migration);
    // Without arguments, so that it may hold several statements.
    await client.query(migration.sql);
    await recordEnd(client, id);
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    const failure = failureOf(migration, error);
    if (!(failure instanceof PassingFailure))
      await recordStart(client, migration, logsOf(error)).catch(() => undefined);
    throw failure;
  }
}

async function applyAlone(
  client: pg.Client,
  migration: Migration,
  { verb, index }: { verb: string; index: string },
  isRepeated: boolean,
): Promise<void> {
  const isCreated = verb.startsWith('CREATE');
  const query = `SELECT indisvalid AS "isValid" FROM pg_index WHERE indexrelid = to_regclass(quote_ident($1))`;
  const [found] = (await client.query<{ isValid: boolean }>(query, [index])).rows;
  if (isRepeated && (isCreated ? found?.isValid === true : found === undefined)) {
    await recordApplied(client, migration);
    return;
  }
  let id: string | undefined;
  try {
    if (isCreated && found?.isValid === false) await client.query(`DROP INDEX CONCURRENTLY "${index}"`);
    id = await recordStart(client, migration);
    await client.query(migration.sql);
    await recordEnd(client, id);
  } catch (error) {
    const logs = logsOf(error);
    if (id !== undefined && logs !== '') await recordFailure(client, id, logs).catch(() => undefined);
    throw failureOf(migration, error);
  }
}

function concurrentIndex(sql: string): { verb: string; index: string } | null {
  const statement = sql.replaceAll(/--.*$/gm, '').trim().replaceAll(/\s+/g, ' ');
  const { verb, index } = CONCURRENTLY.exec(statement)?.groups ?? {};
  return verb === undefined || index === undefined ? null : { verb: verb.toUpperCase(), index };
}

/** '' if the database said nothing: the connection was lost. */
function logsOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  if (!(error instanceof Error) || typeof code !== 'string' || passingOf(error) === 'away') return '';
  return describe({ message: error.message, code });
}

function failureOf({ name }: Migration, error: unknown): MigrationError {
  const passing = passingOf(error);
  if (passing === null) return new MigrationError(explain({ name, logs: logsOf(error) }, reasonOf(error)));
  return new PassingFailure(
    passing,
    passing === 'away'
      ? `the connection was lost during the migration ${name}: ${reasonOf(error)}. \`latchkey migrate\` goes on from there`
      : `other transactions were in the way of the migration ${name}: ${logsOf(error)}. ` +
          '`latchkey migrate` tries it again, so there is nothing to settle: let them end, such as a pg_dump or a report, or end them',
  );
}

/** @param reason the driver's error, if the database sent none. */
export function explain({ name, logs }: Pick<MigrationRecord, 'name' | 'logs'>, reason?: string): string {
  const connectionLost = `The connection ended before the database reported a cause${reason === undefined ? '' : `: ${reason}`}.`;
  return [
    `the migration ${name} failed, so nothing more is applied.`,
    logs ? `The database said:\n${logs.trim()}` : connectionLost,
    'Fix the cause, then record how the migration was resolved:',
    `  npx latchkey migrate --resolve-rolled-back ${name}   to run it again`,
    `  npx latchkey migrate --resolve-applied ${name}       if you have completed it by hand`,
  ].join('\n');
}
