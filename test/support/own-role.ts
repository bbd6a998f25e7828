import { randomBytes, randomUUID } from 'node:crypto';
import type { Test } from 'tap';
import { testDatabase, withClient } from './postgres.ts';

type Settings = Readonly<Record<string, string>>;

/** The least convenient value of each setting that PgBouncer sets as well, or on which nothing relies. */
export const HARMLESS: Settings = {
  DateStyle: 'German',
  TimeZone: 'Pacific/Kiritimati',
  client_encoding: 'LATIN1',
  IntervalStyle: 'sql_standard',
  extra_float_digits: '-15',
  bytea_output: 'escape',
  xmlbinary: 'hex',
  standard_conforming_strings: 'off',
  backslash_quote: 'off',
  array_nulls: 'off',
  transform_null_equals: 'on',
  quote_all_identifiers: 'on',
  row_security: 'off',
  check_function_bodies: 'off',
  default_transaction_deferrable: 'on',
  client_min_messages: 'debug5',
  plan_cache_mode: 'force_generic_plan',
  enable_indexscan: 'off',
  enable_seqscan: 'off',
  work_mem: '64kB',
  statement_timeout: '10s',
  lock_timeout: '5s',
  idle_in_transaction_session_timeout: '15s',
};

/** The same of each setting that a connection changes if there is no pooler. */
export const CHANGED: Settings = {
  default_transaction_isolation: 'serializable',
  search_path: 'shadow, public',
  synchronous_commit: 'off',
  exit_on_error: 'on',
};

/** The same of each setting that only an administrator can mend. */
export const IMPOSSIBLE: Settings = {
  session_replication_role: 'replica',
  default_transaction_read_only: 'on',
  statement_timeout: '1',
  lock_timeout: '1',
  idle_in_transaction_session_timeout: '999',
  idle_session_timeout: '999',
};

/** A database that belongs to a role of its own. Both are dropped at the test's teardown. */
export interface OwnRole {
  /** The database, as this role. */
  url: string;
  role: string;
  /** Statements as the superuser, in the database. */
  administer: (...statements: string[]) => Promise<void>;
  /** Gives the role these settings, and no others. */
  set: (settings: Settings) => Promise<void>;
}

/** Creates the role, and an empty database in which unqualified names may mean other tables. */
export async function makeOwnRole(t: Test): Promise<OwnRole> {
  const role = `lk_role_${randomBytes(8).toString('hex')}`;
  const password = randomUUID();
  let server = '';
  // Registered first, so that it runs after the database is dropped.
  t.teardown(() => withClient(server, (client) => client.query(`DROP ROLE ${role}`)));
  const { url } = await testDatabase(t, { migrated: false });
  const administer = (...statements: string[]) =>
    withClient(url, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
  server = new URL('/postgres', url).href;
  await administer(
    `CREATE ROLE ${role} LOGIN PASSWORD '${password}'`,
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} OWNER TO ${role}`,
    'CREATE SCHEMA shadow',
    'CREATE TABLE shadow.tokens (id int)',
    'CREATE TABLE shadow.service_clients (id int)',
    `GRANT ALL ON SCHEMA shadow TO ${role}`,
  );
  const set = (settings: Settings) =>
    administer(
      `ALTER ROLE ${role} RESET ALL`,
      ...Object.entries(settings).map(([name, value]) => {
        // In quotes, a list of schemas would be one name.
        const written = name === 'search_path' ? value : `'${value}'`;
        return `ALTER ROLE ${role} SET ${name} = ${written}`;
      }),
    );
  const own = new URL(url);
  own.username = role;
  own.password = password;
  return { url: own.href, role, administer, set };
}
