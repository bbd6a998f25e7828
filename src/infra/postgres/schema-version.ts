import { migrationNames, shippedMigrations } from './migration-files.ts';

type Query = (sql: string) => Promise<{ migration_name: string }[]>;

const tableExists = `SELECT 'yes' AS migration_name WHERE to_regclass('_prisma_migrations') IS NOT NULL`;
const finished = `SELECT migration_name FROM _prisma_migrations
  WHERE finished_at IS NOT NULL AND rolled_back_at IS NULL`;

/**
 * Names of the migrations which this build ships and the database lacks, oldest first; [] means the schema
 * is at least as new as the code. Rows of a newer build do no harm: during a rollout the schema comes first.
 * Looks without the schema engine, so that readiness does not load 3 MB of WebAssembly.
 * Rejects with whatever `query` rejects with.
 */
export async function missingMigrations(query: Query, folder = shippedMigrations()): Promise<string[]> {
  const shipped = migrationNames(folder);
  // Asked first, since reading a table that is absent would be an error in each driver's own shape.
  if ((await query(tableExists)).length === 0) return shipped;
  const applied = new Set((await query(finished)).map((row) => row.migration_name));
  return shipped.filter((name) => !applied.has(name));
}

const unfinished = `SELECT migration_name FROM _prisma_migrations
  WHERE finished_at IS NULL AND rolled_back_at IS NULL`;

/** Names of the migrations that were begun and not finished: they failed half-way, or are at work. */
export async function unfinishedMigrations(query: Query): Promise<string[]> {
  if ((await query(tableExists)).length === 0) return [];
  return (await query(unfinished)).map((row) => row.migration_name);
}
