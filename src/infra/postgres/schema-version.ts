import { migrationNames, shippedMigrations } from './migration-files.ts';

type Query = (sql: string) => Promise<{ migration_name: string }[]>;

const tableExists = `SELECT 'yes' AS migration_name WHERE to_regclass('_prisma_migrations') IS NOT NULL`;
const finished = `SELECT migration_name FROM _prisma_migrations
  WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`;

/**
 * Names of the migrations that this build ships and the database lacks, oldest first. [] means that the schema is at
 * least as new as the code. Migrations of a newer build are fine: in a rollout the schema comes first.
 * Rejects with the error of `query`.
 */
export async function missingMigrations(query: Query, folder = shippedMigrations()): Promise<string[]> {
  const shipped = migrationNames(folder);
  // Check first: for a missing table, each driver throws a different error.
  if ((await query(tableExists)).length === 0) return shipped;
  const applied = new Set((await query(finished)).map((row) => row.migration_name));
  return shipped.filter((name) => !applied.has(name));
}

const unfinished = `SELECT migration_name FROM _prisma_migrations
  WHERE finished_at IS NULL AND rolled_back_at IS NULL AND migration_name NOT IN (${finished})`;

/** Names of the migrations that were started and not finished: they failed half-way, or are running. */
export async function unfinishedMigrations(query: Query): Promise<string[]> {
  if ((await query(tableExists)).length === 0) return [];
  return (await query(unfinished)).map((row) => row.migration_name);
}
