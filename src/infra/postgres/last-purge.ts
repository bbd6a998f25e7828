import type { PrismaClient } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** In the table `installation`. */
const NAME = 'last_purge';

/**
 * Records that a purge has succeeded now, by the database's clock.
 * @param purged how many records it deleted.
 * @throws AuthError `unavailable`
 */
export async function recordPurge(prisma: PrismaClient, purged: number): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`
      INSERT INTO installation (name, value) VALUES (${NAME}, ${String(purged)})
      ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = now()`,
  );
}

/**
 * When the last purge succeeded, in ms since 1970; null if none has yet.
 * @throws AuthError `unavailable`
 */
export async function readLastPurge(pool: Postgres['pool']): Promise<number | null> {
  const { rows } = await mapDatabaseErrors(() =>
    pool.query<{ at: Date }>('SELECT at FROM installation WHERE name = $1', [NAME]),
  );
  return rows[0]?.at.getTime() ?? null;
}
