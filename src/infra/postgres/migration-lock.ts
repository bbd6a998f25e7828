import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { MigrationError, MigrationStopped } from './migration-error.ts';

/** The id of Prisma's own migration lock, so that Prisma's CLI and this code exclude each other. */
export const prismaLock = 72707369;

/** Milliseconds between two attempts. */
const RETRY = 150;

/**
 * Runs `use` while no other process migrates this database. `signal` ends the wait for the lock and does not affect
 * `use`.
 *
 * The lock belongs to a transaction: behind PgBouncer (transaction mode), a session lock would stay on the server
 * connection and block the next process. We poll for the lock: a waiting query holds a snapshot, and a CREATE INDEX
 * CONCURRENTLY of the other process would wait for that snapshot, so both would wait for ever.
 * @throws MigrationError after `timeout` milliseconds; MigrationStopped
 */
export async function withMigrationLock<T>(
  client: pg.Client,
  timeout: number,
  signal: AbortSignal | undefined,
  use: () => Promise<T>,
): Promise<T> {
  const deadline = Date.now() + timeout;
  while (!(await tryLock(client))) {
    if (Date.now() > deadline) {
      const waited = Math.round(timeout / 1000);
      throw new MigrationError(
        `another process has been migrating this database for ${waited} s: try again when it is done`,
      );
    }
    if (signal?.aborted) throw new MigrationStopped();
    await sleep(RETRY);
  }
  try {
    if (signal?.aborted) throw new MigrationStopped();
    return await use();
  } finally {
    // The connection may be lost by now, and the lock with it.
    await client.query('ROLLBACK').catch(() => undefined);
  }
}

async function tryLock(client: pg.Client): Promise<boolean> {
  // In a stricter default isolation, the snapshot would block CREATE INDEX CONCURRENTLY for ever.
  await client.query('BEGIN ISOLATION LEVEL READ COMMITTED');
  // A server that ends idle or long transactions would release the lock during a long migration.
  await client.query(`SELECT set_config(name, '0', true) FROM pg_settings
    WHERE name IN ('idle_in_transaction_session_timeout', 'transaction_timeout')`);
  const { rows } = await client.query<{ locked: boolean }>(
    `SELECT pg_try_advisory_xact_lock(${prismaLock}) AS locked`,
  );
  if (rows[0]?.locked === true) return true;
  await client.query('ROLLBACK');
  return false;
}
