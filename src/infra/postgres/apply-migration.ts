import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { MigrationError, PassingFailure, passingOf, reasonOf } from './migration-error.ts';
import {
  isFinished,
  recordApplied,
  recordEnd,
  recordRolledBack,
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

/** Whether the index is there and complete, as of a build that may still run on a connection that was lost. */
const STATE = `SELECT indisvalid AS "isValid", EXISTS (
    SELECT FROM pg_stat_progress_create_index WHERE index_relid = indexrelid) AS "isBuilt"
  FROM pg_index WHERE indexrelid = to_regclass(quote_ident($1))`;

/** Milliseconds between two looks at a build that runs elsewhere. */
const BUILD_POLL = 500;

/**
 * Applies a migration, or what an earlier run has left of it.
 * @throws PassingFailure, MigrationError: with nothing left that the next run cannot go on from
 */
export async function applyMigration(client: pg.Client, migration: Migration, isRepeated: boolean) {
  const concurrent = concurrentIndex(migration.sql);
  if (concurrent) await applyAlone(client, migration, concurrent, isRepeated);
  else await applyInTransaction(client, migration);
}

/**
 * Whether the next run may repeat what a record says was started. 1.0.0 ran a file in one transaction, so what the
 * database refused has left nothing; it recorded a start apart from it, so without an answer nobody knows whether the
 * file was applied. An index shows how far it got.
 */
export function mayRepeat({ logs }: MigrationRecord, sql: string): boolean {
  return logs !== null || concurrentIndex(sql) !== null;
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
    throw failureOf(migration, error);
  }
}

async function applyAlone(
  client: pg.Client,
  migration: Migration,
  { verb, index }: { verb: string; index: string },
  isRepeated: boolean,
): Promise<void> {
  const isCreated = verb.startsWith('CREATE');
  const read = async () =>
    (await client.query<{ isValid: boolean; isBuilt: boolean }>(STATE, [index])).rows.at(0);
  const isDone = async () => {
    const found = await read();
    return isCreated ? found?.isValid === true : found === undefined;
  };
  try {
    // To drop it now would end that build, by a deadlock.
    while ((await read())?.isBuilt === true) await sleep(BUILD_POLL);
    if (await isFinished(client, migration.name)) return;
    if (isRepeated && (await isDone())) {
      await recordApplied(client, migration);
      return;
    }
    if (isCreated && (await read())?.isValid === false)
      await client.query(`DROP INDEX CONCURRENTLY "${index}"`);
    const id = await recordStart(client, migration);
    await client.query(migration.sql);
    await recordEnd(client, id);
  } catch (error) {
    if (passingOf(error) === null) {
      // The other run has built it in between.
      if (isRepeated && (await isDone())) {
        await recordApplied(client, migration);
        return;
      }
      await recordRolledBack(client, migration.name);
    }
    throw failureOf(migration, error);
  }
}

function concurrentIndex(sql: string): { verb: string; index: string } | null {
  const statement = sql.replaceAll(/--.*$/gm, '').trim().replaceAll(/\s+/g, ' ');
  const { verb, index } = CONCURRENTLY.exec(statement)?.groups ?? {};
  return verb === undefined || index === undefined ? null : { verb: verb.toUpperCase(), index };
}

function failureOf({ name }: Migration, error: unknown): MigrationError {
  const { code = '' } = error as { code?: string };
  const said = `${reasonOf(error)} (${code})`;
  const passing = passingOf(error);
  if (passing === null)
    return new MigrationError(
      [
        `the migration ${name} failed, so nothing more is applied.`,
        `The database said:\n${said}`,
        'Fix the cause, and run `latchkey migrate` again. If you have done its work by hand instead, record that:',
        `  npx latchkey migrate --resolve-applied ${name}`,
      ].join('\n'),
    );
  return new PassingFailure(
    passing,
    passing === 'away'
      ? `the connection was lost during the migration ${name}: ${reasonOf(error)}. \`latchkey migrate\` goes on from there`
      : `other transactions were in the way of the migration ${name}: ${said}. ` +
          '`latchkey migrate` tries it again, so there is nothing to settle: let them end, such as a pg_dump or a report, or end them',
  );
}

/** Of a migration of which 1.0.0 did not learn the end. */
export function explainUnknown(name: string): string {
  return [
    `the migration ${name} was started, so nothing more is applied.`,
    'The connection ended before the database reported whether it was. Look, and record it:',
    `  npx latchkey migrate --resolve-rolled-back ${name}   to run it again`,
    `  npx latchkey migrate --resolve-applied ${name}       if its work is done`,
  ].join('\n');
}
