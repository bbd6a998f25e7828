import type pg from 'pg';
import { fillAddressKeys, type Unkeyed } from './address-keys.ts';
import { applyMigration, explainUnknown, mayRepeat } from './apply-migration.ts';
import { MigrationError, MigrationStopped } from './migration-error.ts';
import { readMigrations, shippedMigrations, type MigrationFile } from './migration-files.ts';
import {
  createTable,
  matches,
  readRecords,
  recordApplied,
  recordRolledBack,
  type Migration,
} from './migration-records.ts';
import { exclusively, type WaitOptions } from './migration-session.ts';

export { MigrationError, MigrationStopped } from './migration-error.ts';

/** Not in a folder of an earlier version. */
const HAS_KEYS = `SELECT FROM pg_attribute
  WHERE attrelid = to_regclass('users') AND attname = 'email_key' AND NOT attisdropped`;

/** Which rows change before a file: in pages, because a file would lock all of them until its end. */
const PAGED: Readonly<Record<string, Unkeyed>> = { '20261126220200_user_email_key_index': 'all' };

/** For as long, a row that somebody holds keeps the other rows of its page from their users. */
const KEYS_LOCK_TIMEOUT = '500ms';

interface MigrateOptions extends WaitOptions {
  folder?: string;
}

/** How an operator resolved a migration that failed, or that 1.0.0 has left open. */
export type Resolution = 'rolled-back' | 'applied';

/**
 * Applies the migrations of `folder` (default: those that this build ships) that the database lacks. Many processes may
 * run this at once: one applies, the others wait and find nothing to do.
 * @returns the names it applied, the names of applied migrations whose file has changed since, and how many addresses
 * got the form in which they are compared
 * @throws MigrationError: stopped, no connection, a migration that failed or that 1.0.0 has left open, or a timeout
 * waiting for the lock
 */
export async function migrate(
  databaseUrl: string,
  { folder = shippedMigrations(), ...waitOptions }: MigrateOptions = {},
): Promise<{ applied: string[]; changed: string[]; keyed: number }> {
  const applied: string[] = [];
  let attempted: string | undefined;
  let keyed = 0;
  const keyRows = async (client: pg.Client, which?: Unkeyed) => {
    await client.query(`SET lock_timeout = '${KEYS_LOCK_TIMEOUT}'`);
    keyed += await fillAddressKeys(
      async <Row extends Record<string, unknown>>(sql: string, values: unknown[]) =>
        (await client.query<Row>(sql, values)).rows,
      which,
    );
    await client.query('SET lock_timeout = 0');
  };
  try {
    return await exclusively(databaseUrl, waitOptions, async (client, advance) => {
      const records = (await readRecords(client)) ?? (await createTable(client));
      const migrations = readMigrations(folder);
      const done = records.filter(({ finished, rolledBack }) => finished && !rolledBack);
      const recorded = new Map(done.map((record) => [record.name, record]));
      // Two runs may have built one index, and only one of them has recorded its end.
      const started = records.filter(
        ({ name, finished, rolledBack }) => !finished && !rolledBack && !recorded.has(name),
      );
      for (const record of started) {
        const { sql = '' } = migrations.find(({ name }) => name === record.name) ?? {};
        if (!mayRepeat(record, sql)) throw new MigrationError(explainUnknown(record.name));
      }
      // The answer to its COMMIT was lost.
      if (attempted !== undefined && recorded.has(attempted) && !applied.includes(attempted))
        applied.push(attempted);
      const missing = migrations.filter(({ name }) => !recorded.has(name)).map(complete);
      for (const migration of missing) {
        const paged = PAGED[migration.name];
        if (paged !== undefined) await keyRows(client, paged);
        attempted = migration.name;
        await applyMigration(
          client,
          migration,
          started.some(({ name }) => name === migration.name),
        );
        applied.push(migration.name);
        advance();
      }
      // Not part of a migration: SQL cannot compute it, and replicas of 1.0.0 may still add such rows.
      if ((await client.query(HAS_KEYS)).rowCount === 1) await keyRows(client);
      const changed = migrations
        .filter(({ name, sql }) => recorded.has(name) && !matches(sql, recorded.get(name)?.checksum))
        .map(({ name }) => name);
      return { applied, changed, keyed };
    });
  } catch (error) {
    throw error instanceof MigrationStopped ? new MigrationStopped(applied) : error;
  }
}

/**
 * Records how an operator resolved the migration `name`: after 'rolled-back' the next `migrate` runs it again, and
 * 'applied' marks it as done. A failure leaves no record, so the next one that is missing may be done by hand.
 * @throws MigrationError if there is nothing to resolve, it is unknown, or the database cannot be reached
 */
export async function resolveMigration(
  databaseUrl: string,
  name: string,
  resolution: Resolution,
  { folder = shippedMigrations(), ca }: { folder?: string; ca?: string | undefined } = {},
): Promise<void> {
  const migrations = readMigrations(folder);
  const migration = migrations.find((one) => one.name === name);
  if (!migration) throw new MigrationError(`there is no migration ${name}`);
  const completed = complete(migration);
  await exclusively(databaseUrl, { ca }, async (client) => {
    const records = (await readRecords(client)) ?? [];
    const done = new Set(
      records.filter(({ finished, rolledBack }) => finished && !rolledBack).map((record) => record.name),
    );
    const isNext =
      resolution === 'applied' &&
      done.size > 0 &&
      migrations.find((one) => !done.has(one.name)) === migration;
    if (done.has(name) || !(isNext || records.some((record) => record.name === name)))
      throw new MigrationError(`${name} has not failed here`);
    if (resolution === 'rolled-back') await recordRolledBack(client, name);
    else await recordApplied(client, completed);
  });
}

function complete({ name, sql }: MigrationFile): Migration {
  if (sql === undefined) throw new MigrationError(`the migration ${name} has no file migration.sql`);
  return { name, sql };
}
