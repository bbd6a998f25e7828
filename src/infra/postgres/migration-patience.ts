import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { connectTo, type Target } from './migration-connection.ts';
import { DatabaseAway, MigrationStopped } from './migration-error.ts';

/** Milliseconds between two tries. */
const RETRY = 500;

export interface Patience {
  /** Milliseconds. */
  patience?: number;
  onWait?: (reason: string) => void;
  signal?: AbortSignal;
}

/**
 * Opens a connection, and waits for a server that is not there yet: containers start in no order. One that turns us away
 * (wrong password, no such database) will do so again.
 * @throws MigrationError; MigrationStopped where `signal` ended the wait.
 */
export async function connectPatiently(
  target: Target,
  { patience = 0, onWait, signal }: Patience,
): Promise<pg.Client> {
  const deadline = Date.now() + patience;
  for (let told = ''; ;) {
    try {
      return await connectTo(target);
    } catch (error) {
      if (signal?.aborted) throw new MigrationStopped();
      if (!(error instanceof DatabaseAway) || Date.now() + RETRY > deadline) throw error;
      if (error.message !== told) onWait?.(error.message);
      told = error.message;
    }
    await sleep(RETRY, undefined, signal && { signal }).catch(() => undefined);
    if (signal?.aborted) throw new MigrationStopped();
  }
}
