import type { PrismaClient } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** In the table `installation`. */
const NAME = 'last_purge';
/** Made the table. */
const MIGRATION = '20261128000000_installation';

/**
 * Records that a purge has succeeded now, by the database's clock.
 * @param purged how many records it deleted.
 * @throws AuthError `unavailable`
 */
export async function recordPurge(prisma: PrismaClient, purged: number): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`
      INSERT INTO installation (name, value, at) VALUES (${NAME}, ${String(purged)}, now())
      ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at`,
  );
}

export interface LastPurge {
  /** When it succeeded, or else since when purges are recorded: ms since 1970. */
  at: number;
  /** Whether one has succeeded since then. */
  hasRun: boolean;
}

/**
 * Purges are recorded since the migration that made the table, so a new installation, and one that was upgraded, has as much
 * time for its first as for a later one.
 * @throws AuthError `unavailable`
 */
export async function readLastPurge(pool: Postgres['pool']): Promise<LastPurge> {
  const { rows } = await mapDatabaseErrors(() =>
    pool.query<{ at: Date; run: boolean }>(
      `SELECT at, true AS run FROM installation WHERE name = $1
       UNION ALL SELECT finished_at, false FROM _prisma_migrations WHERE migration_name = $2 AND finished_at IS NOT NULL
       ORDER BY run DESC LIMIT 1`,
      [NAME, MIGRATION],
    ),
  );
  const [last] = rows;
  return { at: last?.at.getTime() ?? 0, hasRun: last?.run ?? false };
}
