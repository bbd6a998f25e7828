import type { Config } from '../config/config.ts';
import { causeOf } from '../infra/postgres/cause.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { countFactorKeys } from '../infra/postgres/factor-keys.ts';
import {
  inspectAddresses,
  inspectPostgres,
  postgresNow,
  type CollationFacts,
  type PostgresFacts,
} from '../infra/postgres/inspect.ts';
import { readLastPurge } from '../infra/postgres/last-purge.ts';
import { reasonOf } from '../infra/postgres/migration-error.ts';
import { countForeignPasskeys } from '../infra/postgres/passkey-store.ts';
import { SettingsError } from '../infra/postgres/settings-error.ts';
import { missingMigrations, unfinishedMigrations } from '../infra/postgres/schema-version.ts';
import { judgeCertificate } from './certificate.ts';
import { compareClocks, judgeClock } from './clock.ts';
import { judgeFactorKeys, loadedFactorKeys } from './factor-keys.ts';
import { fail, ok, warn, type Finding } from './finding.ts';
import { judgePasskeys } from './passkeys.ts';
import { judgePurge } from './purge.ts';
import { checkInstallation } from './installation.ts';

const MIN_VERSION = 14;

/** Connects and checks the database. Writes nothing. */
export async function checkDatabase(config: Config): Promise<Finding[]> {
  const { DATABASE_URL: url, DATABASE_CA: ca, DATABASE_POOL: pool, DATABASE_TIMEOUT: timeout } = config;
  if (url === undefined) {
    const found = `embedded, in ${config.DATA_DIR}; not checked, because it runs only with the service`;
    return [warn('database', found, 'set DATABASE_URL to run more than one replica')];
  }
  const postgres = makePostgres({ url, ca, pool: 1, timeout, observe: null });
  try {
    const facts = await inspectPostgres(postgres.pool);
    const clock = await compareClocks(() => postgresNow(postgres.pool));
    return [
      ok('database settings', 'those of our role and database change no answer'),
      ...judgeServer(facts, pool),
      ...judgeCertificate('the database', postgres.certificateEnd(), Date.now()),
      judgeClock('the database', clock),
      ...(await checkMigrations(postgres, config)),
    ];
  } catch (error) {
    if (error instanceof SettingsError) return [fail('database settings', error.reason, error.todo)];
    const todo = causeOf(error)?.todo ?? 'check DATABASE_URL, the network, and that the server runs';
    return [fail('database', `not reachable: ${reasonOf(error)}`, todo)];
  } finally {
    await postgres.close();
  }
}

/** @param pool DATABASE_POOL. */
export function judgeServer(facts: PostgresFacts, pool: number): Finding[] {
  return [
    judgeVersion(facts),
    judgeCommits(facts),
    // The server that DATABASE_URL names may be a standby itself.
    ...(facts.isReadOnly ? [] : [judgeStandbys(facts)]),
    judgeTimeouts(facts),
    judgeConnections(facts, pool),
    ...(facts.collation ? [judgeCollation(facts.collation)] : []),
  ];
}

function judgeVersion({ version, isReadOnly }: PostgresFacts): Finding {
  const found = `PostgreSQL ${Math.floor(version / 10_000)}.${version % 10_000} answers`;
  if (version < MIN_VERSION * 10_000)
    return fail('database', found, `use PostgreSQL ${MIN_VERSION} or later`);
  if (!isReadOnly) return ok('database', found);
  return fail(
    'database',
    `${found}, but refuses writes`,
    'point DATABASE_URL at the primary, not at a standby',
  );
}

function judgeCommits({ unsafe }: PostgresFacts): Finding {
  if (unsafe.length === 0) return ok('database commits', 'acknowledged commits are on disk');
  const found = `${unsafe.join(', ')}: a crash may lose logins and revocations that were answered 200`;
  return fail('database commits', found, 'switch them on, at least for our role');
}

function judgeStandbys({ standbys, synchronousNames, synchronousCommit }: PostgresFacts): Finding {
  const check = 'database standbys';
  const count = standbys.length;
  const loss = 'a failover loses logins and revocations that were answered 200';
  if (synchronousNames === '') {
    if (count === 0) return ok(check, 'none is connected');
    const todo =
      'set synchronous_standby_names, or run `latchkey recover` after each failover (docs/operating.md, "Failover")';
    return warn(check, `${count} connected, none of them synchronous: ${loss}`, todo);
  }
  if (['local', 'off'].includes(synchronousCommit)) {
    const found = `synchronous_commit = ${synchronousCommit}: commits do not wait for a standby, and ${loss}`;
    return warn(check, found, 'set synchronous_commit = on for our role (docs/operating.md, "Failover")');
  }
  const synchronous = standbys.filter((state) => state === 'sync' || state === 'quorum').length;
  if (synchronous > 0)
    return ok(check, `${count} connected, ${synchronous} of them synchronous (${synchronousNames})`);
  if (standbys.includes(null)) {
    const todo =
      'grant pg_read_all_stats to our role while this command runs, or look up sync_state in pg_stat_replication';
    return warn(check, `${count} connected; our role cannot see which of them are synchronous`, todo);
  }
  const found = `${count} connected, none of them synchronous, and commits wait for one: writes return 503`;
  return fail(check, found, `start a standby of synchronous_standby_names (${synchronousNames})`);
}

function judgeTimeouts({ unlimited }: PostgresFacts): Finding {
  if (unlimited.length === 0) return ok('database timeouts', 'all timeouts are set');
  const found = `${unlimited.join(', ')} not set: a statement goes on in the server after its replica has given up`;
  return warn(
    'database timeouts',
    found,
    'ALTER ROLE … SET, for the role that serves (docs/operating.md, "PostgreSQL")',
  );
}

function judgeConnections({ connections, used }: PostgresFacts, pool: number): Finding {
  const replicas = Math.floor(connections / (pool + 1));
  const found =
    `${connections} connections allowed, ${used} in use in total; ` +
    `with DATABASE_POOL ${pool}, and one for the health check, they are enough for ${replicas} replicas`;
  const todo = 'lower DATABASE_POOL, raise the limit, or use PgBouncer';
  if (replicas === 0) return fail('database connections', found, todo);
  // A rollout runs one additional replica.
  if (replicas < 3) return warn('database connections', `${found}, and a rollout runs one more`, todo);
  return ok('database connections', found);
}

function judgeCollation({ recorded, actual, indexes }: CollationFacts): Finding {
  const check = 'database collation';
  if (recorded === actual)
    return ok(check, actual === null ? 'no library orders texts' : `version ${actual}`);
  const found = `the database was made with version ${recorded ?? 'none'} of its collation, and the server has ${actual ?? 'none'}`;
  const refresh = 'ALTER DATABASE … REFRESH COLLATION VERSION';
  if (indexes.length === 0) return warn(check, `${found}; no index of ours depends on it`, refresh);
  return fail(
    check,
    `${found}: these indexes may miss rows: ${indexes.join(', ')}`,
    `REINDEX INDEX CONCURRENTLY each of them, then ${refresh} (docs/operating.md, "Collation")`,
  );
}

async function checkAddresses(pool: Postgres['pool']): Promise<Finding> {
  const { shared, missing } = await inspectAddresses(pool);
  const check = 'e-mail addresses';
  // First: an address without its form is in no list of those that are shared.
  if (missing > 0) {
    const found = `${missing} were written by 1.0.0 and have no form to compare yet`;
    return warn(check, found, 'run `latchkey migrate` again once every replica of 1.0.0 is replaced');
  }
  if (shared.length === 0) return ok(check, 'no two accounts have the same');
  const found = `accounts that share one, which names none of them, or the one that has it in plain ASCII: ${shared.join('; ')}`;
  const todo = 'ask their owner which one stays; delete the other, or change its address';
  return warn(check, found, todo);
}

async function checkMigrations(postgres: Postgres, config: Config): Promise<Finding[]> {
  const { pool } = postgres;
  const query = async (sql: string) => (await pool.query<{ migration_name: string }>(sql)).rows;
  const [stuck] = await unfinishedMigrations(query);
  if (stuck !== undefined) {
    const todo = 'if no `latchkey migrate` is running, run it: it says what to do';
    return [fail('migrations', `${stuck} was started and is not finished`, todo)];
  }
  const missing = await missingMigrations(query);
  if (missing.length === 0)
    return [
      ok('migrations', 'the schema fits this version'),
      await checkAddresses(pool),
      judgeFactorKeys(loadedFactorKeys(config), await countFactorKeys(pool)),
      judgePasskeys(config.WEBAUTHN_RP_ID, await countForeignPasskeys(pool, config.WEBAUTHN_RP_ID)),
      judgePurge(await readLastPurge(pool), Date.now()),
      ...(await checkInstallation(config, postgres)),
    ];
  const found = `${missing.length} are missing, from ${missing[0] ?? ''} on: replicas of this version do not become ready`;
  return [
    fail('migrations', found, 'run `npm run migrate`, or `latchkey migrate`'),
    // Before an upgrade, each replica is asked for these.
    ...(await checkInstallation(config, postgres)),
  ];
}
