import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { connectionOf } from './connection.ts';
import { settle } from './session-settings.ts';
import { SettingsError } from './settings-error.ts';
import { DatabaseAway, isAway, MigrationError, MigrationStopped, reasonOf } from './migration-error.ts';

/** Timeout of one connection attempt, in milliseconds. */
const CONNECT_TIMEOUT = 10_000;

/** Milliseconds between two connection attempts. */
const RETRY = 500;

export interface WaitOptions {
  /** DATABASE_CA. */
  ca?: string | undefined;
  /** Milliseconds to wait for a database that is not up yet. */
  timeout?: number;
  /** Called once for each new reason to wait. */
  onWait?: (reason: string) => void;
  /** Ends the wait. A migration that has begun still runs to its end: an operator would have to resolve half of one. */
  signal?: AbortSignal;
}

/**
 * Opens one connection.
 * @throws MigrationError with the server and the reason, without a password; DatabaseAway if a retry may help
 */
export async function connectTo(databaseUrl: string, ca?: string): Promise<pg.Client> {
  const client = makeClient(databaseUrl, ca);
  // Without a listener, a connection lost between two queries would end the process.
  client.on('error', () => undefined);
  try {
    await client.connect();
    await settle(client);
    return client;
  } catch (error) {
    await client.end().catch(() => undefined);
    if (error instanceof SettingsError) throw new MigrationError(error.message);
    const where = `${client.database ?? ''} at ${client.host}:${client.port}`;
    const Failure = isAway(error) ? DatabaseAway : MigrationError;
    throw new Failure(`cannot connect to the database ${where}: ${reasonOf(error)}`);
  }
}

function makeClient(url: string, ca: string | undefined): pg.Client {
  try {
    return new pg.Client({ ...connectionOf(url, ca), connectionTimeoutMillis: CONNECT_TIMEOUT });
  } catch {
    // The driver's own error holds the URL, and with it the password.
    throw new MigrationError('DATABASE_URL is not a URL like postgresql://user:password@host:5432/database');
  }
}

/**
 * Opens a connection, and waits for a server that is not up yet: containers start in any order. Does not retry if the
 * server refuses us (wrong password, no such database).
 * @throws MigrationError; MigrationStopped if `signal` ended the wait
 */
export async function connectWithRetries(
  databaseUrl: string,
  { timeout = 0, onWait, signal, ca }: WaitOptions,
): Promise<pg.Client> {
  const deadline = Date.now() + timeout;
  for (let told = ''; ;) {
    try {
      return await connectTo(databaseUrl, ca);
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
