import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { MigrationError, MigrationStopped } from './migration-error.ts';

/** The number of Prisma's own migration lock, so that its command line and this exclude each other. */
export const prismaLock = 72707369;

/** Milliseconds between two tries. */
const retryEvery = 150;

/**
 * Runs `use` while no other process migrates this database; waits up to `patience` milliseconds, then
 * throws MigrationError. `signal` ends the wait with MigrationStopped, and does nothing to `use`.
 *
 * The engine takes the same lock, in ways that are not enough: it waits without bound, and for its session,
 * which behind PgBouncer in transaction mode outlives us and blocks the next one. So the lock is taken here,
 * for a transaction, and the engine's request is answered for it (migration-connection.ts). The lock is tried for rather than waited for, because a waiting query holds a snapshot, and a
 * CREATE INDEX CONCURRENTLY in the other process's migration would wait for that snapshot forever.
 */
export async function withMigrationLock<T>(
  client: pg.Client,
  patience: number,
  use: () => Promise<T>,
  signal?: AbortSignal,
): Promise<T> {
  const deadline = Date.now() + patience;
  while (!(await tryLock(client))) {
    if (Date.now() > deadline) {
      throw new MigrationError(
        `another process has been migrating this database for ${Math.round(patience / 1000)} s; try again when it is done`,
      );
    }
    if (signal?.aborted) throw new MigrationStopped();
    await sleep(retryEvery);
  }
  try {
    if (signal?.aborted) throw new MigrationStopped();
    return await use();
  } finally {
    // The connection may be gone by now, and the lock with it.
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

async function tryLock(client: pg.Client): Promise<boolean> {
  await client.query('BEGIN');
  // A server that cuts idle transactions would let go of the lock in a long migration.
  await client.query('SET LOCAL idle_in_transaction_session_timeout = 0');
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_xact_lock(${prismaLock}) AS locked`,
  );
  if (rows[0]?.locked === true) return true;
  await client.query('ROLLBACK');
  return false;
}
