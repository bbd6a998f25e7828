import type { Pool } from 'pg';
import { WAITING } from './address-keys.ts';

/** Facts about a server, as our role sees it on our database. */
export interface PostgresFacts {
  /** server_version_num: 160004 is 16.4. */
  version: number;
  /** A standby, or a database or role that is set to read only. */
  isReadOnly: boolean;
  /** Settings that may lose an acknowledged commit. */
  unsafe: string[];
  /** Timeouts of statements and transactions that are off. */
  unlimited: string[];
  /** The most connections of our role to our database, if no other client had any. */
  connections: number;
  /** All open connections, of any client. */
  used: number;
  /** synchronous_standby_names; no commit waits for a standby if it is empty. */
  synchronousNames: string;
  /** synchronous_commit */
  synchronousCommit: string;
  /** The `sync_state` of each connected standby; null if our role may not see it. */
  standbys: (string | null)[];
  /** null before PostgreSQL 15. */
  collation: CollationFacts | null;
}

/** By which version of a library the database's texts are ordered; null if no library is asked. */
export interface CollationFacts {
  /** When the indexes were made. */
  recorded: string | null;
  /** Now. */
  actual: string | null;
  /** Our indexes that a library orders. None, once the migrations are applied. */
  indexes: string[];
}

const FACTS = `
  SELECT current_setting('server_version_num')::int AS version,
    current_setting('transaction_read_only') = 'on' AS "isReadOnly",
    ARRAY(SELECT name || ' = ' || setting FROM pg_settings
      WHERE name IN ('fsync', 'synchronous_commit', 'full_page_writes') AND setting = 'off' ORDER BY name) AS unsafe,
    ARRAY(SELECT name FROM pg_settings
      WHERE name IN ('statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout')
        AND setting = '0' ORDER BY name) AS unlimited,
    least(
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
      nullif(datconnlimit, -1), nullif(rolconnlimit, -1)) AS connections,
    (SELECT sum(numbackends)::int - 1 FROM pg_stat_database) AS used,
    current_setting('synchronous_standby_names') AS "synchronousNames",
    current_setting('synchronous_commit') AS "synchronousCommit",
    ARRAY(SELECT sync_state FROM pg_stat_replication
      -- Backups and logical replication are not standbys. Without rights, a role cannot tell them apart.
      WHERE coalesce(application_name, '') NOT IN ('pg_basebackup', 'pg_receivewal') AND NOT EXISTS (
        SELECT FROM pg_replication_slots WHERE active_pid = pid AND slot_type = 'logical')) AS standbys
  FROM pg_database, pg_roles WHERE datname = current_database() AND rolname = current_user`;

/** One row for each of our indexes that a library orders. */
export const ORDERED_BY_LIBRARY = `
  SELECT DISTINCT indexrelid::regclass::text AS name FROM pg_index
  JOIN pg_class ON pg_class.oid = indrelid AND relnamespace = current_schema()::regnamespace
  JOIN pg_collation ON pg_collation.oid = ANY(indcollation::oid[]) AND collname <> 'C' ORDER BY name`;

const COLLATION = `
  SELECT datcollversion AS recorded, pg_database_collation_actual_version(oid) AS actual,
    ARRAY(${ORDERED_BY_LIBRARY}) AS indexes
  FROM pg_database WHERE datname = current_database()`;

/** Rejects with the driver's own errors. */
export async function inspectPostgres(pool: Pool): Promise<PostgresFacts> {
  const { rows } = await pool.query<Omit<PostgresFacts, 'collation'>>(FACTS);
  const [facts] = rows;
  if (!facts) throw new Error('the server does not list our role and database');
  const [collation = null] =
    facts.version < 150_000 ? [] : (await pool.query<CollationFacts>(COLLATION)).rows;
  return { ...facts, collation };
}

/** The server's clock, in milliseconds since 1970. */
export async function postgresNow(pool: Pool): Promise<number> {
  // Numeric, and so a text: extra_float_digits would round a float.
  const { rows } = await pool.query<{ now: string }>(
    'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now',
  );
  return Number(rows[0]?.now ?? NaN);
}

/** Accounts that have one address in several spellings, as lists of `ID (USERNAME)`, at most 20. */
const SHARED = `
  WITH keyed AS (SELECT id, username, email_key AS key FROM users WHERE email_key <> '${WAITING}'),
    holders AS (
      SELECT * FROM keyed
      UNION SELECT users.id, users.username, key FROM keyed JOIN users ON users.email = key
    )
  SELECT string_agg(id || ' (' || username || ')', ', ' ORDER BY id) AS accounts FROM holders
  GROUP BY key HAVING count(*) > 1 ORDER BY min(id) LIMIT 20`;

/** What 1.0.0 has left of addresses (`address-keys.ts`). */
export interface AddressFacts {
  /** Accounts that have one address, at most 20 times. */
  shared: string[];
  /** How many addresses lack the form in which they are compared. */
  missing: number;
}

/** Rejects with the driver's own errors. */
export async function inspectAddresses(pool: Pool): Promise<AddressFacts> {
  const { rows } = await pool.query<{ accounts: string }>(SHARED);
  const { rows: missing } = await pool.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM users WHERE email_key = '${WAITING}'`,
  );
  return { shared: rows.map(({ accounts }) => accounts), missing: missing[0]?.count ?? 0 };
}
