import pg from 'pg';
import type { Test } from 'tap';
import { withClient } from './postgres.ts';
import { until } from './until.ts';

/** Work that starts later and may wait at a lock. */
export function begun<Result>(work: () => Promise<Result>) {
  let isDone = false;
  let running: Promise<Result> | null = null;
  return {
    isDone: () => isDone,
    /** Starts it. Resolves once it is done, or once this many wait for a lock. */
    async begin(watch: pg.Client, waiting = 1): Promise<void> {
      running = work().finally(() => (isDone = true));
      running.catch(() => undefined);
      await until(async () => isDone || (await waitingForLocks(watch)) >= waiting);
    },
    result: () => running ?? Promise.reject(new Error('it has not begun')),
  };
}

/** How many connections to its database wait for a lock. */
export async function waitingForLocks(client: pg.Client): Promise<number> {
  const { rowCount } = await client.query(
    "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
  );
  return rowCount ?? 0;
}

/** Resolves once so many connections to the database wait for a lock. */
export async function locksAwaited(url: string, waiting = 1): Promise<void> {
  await withClient(url, (watch) => until(async () => (await waitingForLocks(watch)) >= waiting));
}

/** A connection of the test's own. */
export async function aClient(t: Test, connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  t.teardown(() => client.end());
  return client;
}
