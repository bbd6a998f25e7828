import pg from 'pg';
import { SettingsError } from './settings-error.ts';

// PostgreSQL takes a session's settings from the server's file, the database, the role and the URL. Some of them change
// what a statement answers. `settle` makes each new connection independent of these, or refuses it.

/** A setting that our statements rely on. */
interface Setting {
  /** What is set, or what the administrator is told to set. */
  value: string;
  /** SQL: whether the value that the session began with does no harm. Without backslashes, which a setting may change. */
  fits: string;
  /** SQL: the value, for the error. */
  found: string;
  /**
   * Who sets it: 'client' everywhere, because PgBouncer sets it on each server connection that it gives to a client;
   * 'session' if no pooler is in between. In transaction mode, the next statement may run on another server connection.
   * null for what only a superuser may change, and for what an administrator decides.
   */
  setBy: 'client' | 'session' | null;
}

/** The session of this client is the server's own. A pooler invents the process id that it tells its clients. */
const IS_DIRECT = 'pg_backend_pid() = $1';

const setting = (
  name: string,
  setBy: Setting['setBy'],
  value: string,
  fits: (found: string) => string,
): [string, Setting] => {
  const found = `current_setting('${name}', true)`;
  return [name, { value, fits: fits(found), found, setBy }];
};

/** A timeout below one second cuts off statements that are in order. The server shows it in milliseconds. */
const timeout = (name: string, value: string) =>
  setting(name, null, value, (found) => `${found} !~ '^[0-9]{1,3}ms$'`);

/** The source of a setting of the whole server. */
const OF_THE_SERVER = `(SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only')
  IN ('configuration file', 'command line')`;

const SETTINGS: readonly [name: string, Setting][] = [
  // Prisma sends times in UTC without a time zone, and reads them in ISO's format.
  setting('TimeZone', 'client', 'UTC', (found) => `${found} = 'UTC'`),
  setting('DateStyle', 'client', 'ISO, MDY', (found) => `${found} LIKE 'ISO%'`),
  // For single statements: a stricter level would refuse some of those that run at the same time.
  setting(
    'default_transaction_isolation',
    'session',
    'read committed',
    (found) => `${found} = 'read committed'`,
  ),
  // Prisma's statements name the schema `public`, and ours name none: they have to mean the same tables. Without the
  // right to use it, current_schema() is null, and the statements say so.
  setting(
    'search_path',
    'session',
    'public',
    (found) => `CASE WHEN ${IS_DIRECT} THEN ${found} = 'public'
      ELSE coalesce(current_schema(), 'public') = 'public' AND position('public' IN ${found}) > 0 END`,
  ),
  // A crash must not lose what was answered 200.
  setting('synchronous_commit', 'session', 'on', (found) => `${found} <> 'off'`),
  // A duplicate would end the connection.
  setting('exit_on_error', 'session', 'off', (found) => `${found} = 'off'`),
  // As a replica, it does not enforce foreign keys, nor delete what belongs to a deleted row.
  setting('session_replication_role', null, 'origin', (found) => `${found} <> 'replica'`),
  // Administrators fence a database off with it, so it is never switched off here. A whole server that is read-only is
  // an outage, as a standby is: its replicas serve the sessions in Redis.
  setting(
    'default_transaction_read_only',
    null,
    'off',
    (found) => `CASE WHEN ${found} = 'on' THEN ${OF_THE_SERVER} ELSE true END`,
  ),
  timeout('statement_timeout', '10s'),
  timeout('lock_timeout', '5s'),
  timeout('idle_in_transaction_session_timeout', '15s'),
  timeout('transaction_timeout', '0'),
  timeout('idle_session_timeout', '0'),
  // Other encodings lack characters of names. SQL_ASCII keeps every byte.
  setting('server_encoding', null, 'UTF8', (found) => `${found} IN ('UTF8', 'SQL_ASCII')`),
];

/** The level that our transactions are written for: each statement sees what was committed before it. */
export const BEGIN = 'BEGIN ISOLATION LEVEL READ COMMITTED';

/** One column for each setting: null, or the value that does harm and cannot be changed. */
const STATEMENT = `SELECT ${IS_DIRECT} AS "isDirect", quote_ident(session_user) AS role,
  quote_ident(current_database()) AS database, ${SETTINGS.map(([name, each]) => columnOf(name, each)).join(', ')}`;

function columnOf(name: string, { value, fits, found, setBy }: Setting): string {
  const change = `nullif(set_config('${name}', '${value}', false), '${value}')`;
  const isOurs = { client: 'true', session: IS_DIRECT, none: 'false' }[setBy ?? 'none'];
  return `CASE WHEN (${fits}) IS NOT FALSE THEN NULL WHEN ${isOurs} THEN ${change} ELSE ${found} END AS "${name}"`;
}

type Row = { isDirect: boolean; role: string; database: string } & Record<string, string | boolean | null>;

interface PlainClient {
  query: (this: pg.ClientBase, text: string, values: unknown[]) => Promise<pg.QueryResult<Row>>;
}

/** By SQLSTATE: which timeout the server reports. */
const TIMEOUTS: Readonly<Record<string, string>> = {
  '57014': 'statement_timeout',
  '57P05': 'idle_session_timeout',
  '25P04': 'transaction_timeout',
};

/**
 * Makes a new connection independent of the settings of its role and database, in one round trip.
 * @throws SettingsError if that is impossible; the driver's own errors
 */
export async function settle(client: pg.ClientBase): Promise<void> {
  const begun = performance.now();
  // Not the client's own `query`: observed, this statement would count as a sign that the server works.
  const { query } = pg.Client.prototype as unknown as PlainClient;
  const { processID } = client as unknown as { processID: number };
  try {
    const { rows } = await query.call(client, STATEMENT, [processID]);
    for (const row of rows) refuse(row);
  } catch (error) {
    const name = TIMEOUTS[(error as NodeJS.ErrnoException).code ?? ''];
    // After a second, it may be a sound timeout on a slow server.
    if (name === undefined || performance.now() - begun > 1000) throw error;
    const [, { value }] = SETTINGS.find(([one]) => one === name) ?? [name, { value: '0' }];
    throw new SettingsError(
      `${name} is so short that no statement succeeds`,
      `ALTER ROLE … SET ${name} = '${value}', for the role of DATABASE_URL`,
    );
  }
}

/** @throws SettingsError */
function refuse(row: Row): void {
  const wrong = SETTINGS.filter(([name]) => row[name] !== null);
  if (wrong.length === 0) return;
  const found = wrong.map(([name]) => `${name} = ${String(row[name])}`).join(', ');
  const pooled = row.isDirect ? '' : ' (behind a pooler, it cannot change them itself)';
  const todo = wrong.map(([name, { value }]) => {
    if (name === 'server_encoding') return `move to a database with ENCODING '${value}'`;
    // The most specific place: it counts before the role's, the database's and the server's own.
    return `ALTER ROLE ${row.role} IN DATABASE ${row.database} SET ${name} = '${value}';`;
  });
  throw new SettingsError(
    `Latchkey cannot work with these settings of PostgreSQL: ${found}${pooled}`,
    todo.join(' '),
  );
}
