import type pg from 'pg';
import { connectTo, parseTarget, type Target } from './migration-connection.ts';
import { MigrationError, reasonOf } from './migration-error.ts';
import { connectPatiently } from './migration-patience.ts';
import { migrationNames, shippedMigrations } from './migration-files.ts';
import { withMigrationLock } from './migration-lock.ts';
import { everything, migrationList, withSchemaEngine } from './schema-engine.ts';

export { MigrationError, MigrationStopped } from './migration-error.ts';

/** Milliseconds to wait for another process that migrates the same database. */
const lockPatience = 10 * 60_000;

type Options = { folder?: string };

interface MigrateOptions extends Options {
  /** Milliseconds to wait for a database that is not there yet. */
  patience?: number;
  /** Told once for each reason for which it waits. */
  onWait?: (reason: string) => void;
  /** Ends the waiting. What has been begun is finished: half of it would have to be settled by hand. */
  signal?: AbortSignal;
}

/** How an operator settled a migration which failed half-way. */
export type Resolution = 'rolled-back' | 'applied';

/**
 * Applies what is missing of `folder` (default: the migrations that this build ships), and says what it
 * applied. Safe to run from many processes at once: one applies, the others wait and find nothing to do.
 * Rejects with MigrationError: stopped, no connection, an earlier or new migration that failed, or a lasting lock.
 */
export async function migrate(
  databaseUrl: string,
  options: MigrateOptions = {},
): Promise<{ applied: string[] }> {
  const folder = options.folder ?? shippedMigrations();
  const target = parseTarget(databaseUrl);
  const client = await connectPatiently(target, options);
  return exclusively(client, options.signal, async () => {
    const earlier = await failedMigration(target);
    if (earlier) throw new MigrationError(explain(earlier));
    try {
      const done = await withSchemaEngine(target, (engine) =>
        engine.applyMigrations({ migrationsList: migrationList(folder), filters: everything }),
      );
      return { applied: done.appliedMigrationNames };
    } catch (error) {
      const failed = await failedMigration(target);
      throw new MigrationError(failed ? explain(failed) : `cannot migrate: ${reasonOf(error)}`);
    }
  });
}

/**
 * Records how the half-failed migration `name` was settled by hand: 'rolled-back' makes the next `migrate`
 * run it again, 'applied' makes it count as done. Rejects with MigrationError if it did not fail, is unknown,
 * or the database cannot be reached.
 */
export async function resolveMigration(
  databaseUrl: string,
  name: string,
  resolution: Resolution,
  options: Options = {},
): Promise<void> {
  const folder = options.folder ?? shippedMigrations();
  if (!migrationNames(folder).includes(name)) throw new MigrationError(`there is no migration ${name}`);
  const target = parseTarget(databaseUrl);
  await exclusively(await connectTo(target), undefined, () =>
    withSchemaEngine(target, async (engine) => {
      try {
        if (resolution === 'rolled-back') await engine.markMigrationRolledBack({ migrationName: name });
        else {
          await engine.markMigrationApplied({ migrationName: name, migrationsList: migrationList(folder) });
        }
      } catch (error) {
        throw new MigrationError(`cannot mark ${name} as ${resolution}: ${reasonOf(error)}`);
      }
    }),
  );
}

async function exclusively<T>(
  client: pg.Client,
  signal: AbortSignal | undefined,
  use: () => Promise<T>,
): Promise<T> {
  try {
    return await withMigrationLock(client, lockPatience, use, signal);
  } finally {
    await client.end();
  }
}

type Failed = { migration_name: string; logs: string | null };

async function failedMigration(target: Target): Promise<Failed | undefined> {
  const client = await connectTo(target);
  try {
    const exists = await client.query(`SELECT 1 WHERE to_regclass('_prisma_migrations') IS NOT NULL`);
    if (exists.rows.length === 0) return undefined;
    const { rows } = await client.query<Failed>(
      `SELECT migration_name, logs FROM _prisma_migrations
       WHERE finished_at IS NULL AND rolled_back_at IS NULL ORDER BY started_at LIMIT 1`,
    );
    return rows[0];
  } finally {
    await client.end();
  }
}

function explain({ migration_name: name, logs }: Failed): string {
  return [
    `the migration ${name} failed half-way, so nothing more is applied.`,
    logs ? `The database said:\n${withoutTrace(logs)}` : 'It was cut off before the database could say why.',
    'Put right what it complains of, then say how the migration was settled:',
    `  npx latchkey migrate --resolve-rolled-back ${name}   to have it run again`,
    `  npx latchkey migrate --resolve-applied ${name}       if you have done the rest of it by hand`,
  ].join('\n');
}

/** The engine's log without its preamble and the places in its own source. */
function withoutTrace(logs: string): string {
  const [said = ''] = logs.split(/\n\s*0: /, 1);
  return said
    .replace(/^external connector error\s*/, '')
    .replace('Error querying the database: ', '')
    .trim();
}
